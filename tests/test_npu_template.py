"""Test the NPU template: placement, device failures, compiling, and what it costs to write."""

import ctypes
import logging
import re
import threading
import time

import numpy as np
import pytest
from click.testing import CliRunner

import dovetail
from dovetail import (
    BackendUnavailableError,
    DataLayout,
    ErrorCode,
    Network,
    PlacementError,
    Quantization,
    RunError,
    Runtime,
    RunTimeoutError,
)
from dovetail.contract.backend_id import BackendRequest
from dovetail.discovery.registry import default_registry
from dovetail.layers import Convolution2d, DepthwiseConvolution2d, ElementwiseBinary
from dovetail_reference import ReferenceBackend
from dovetail_sdk.cli import main

PACKAGE = "dovetail_acme_npu"
BUDGET = 500  # lines of code, without the simulated device, which a vendor deletes
RELU6 = {"activation": "bounded_relu", "activation_alpha": 6.0}


@pytest.fixture
def runtime():
    with Runtime(threads=1) as runtime:
        yield runtime


def load(runtime, network, backends, passes=True, registry=None, **options):
    given = {"AcmeNpu": options} if options else {}
    return runtime.load(network, optimize={"backends": backends, "passes": passes, "options": given, "registry": registry})


class Offering:
    """A registry that offers a backend by its id, as an installed one is."""

    def __init__(self, *backends):
        self.backends = {backend.id: backend for backend in (*backends, ReferenceBackend())}

    def get(self, id):
        return self.backends[id]

    def default_preferences(self):
        return tuple(self.backends)

    def device_opened(self, backend):
        assert backend in self.backends.values()


def scale(value, zero=0):
    return Quantization.per_tensor(value, zero)


class Maker:
    """Makes weights and biases from a seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def weights(self, net, shape, axis=0):
        scheme = Quantization.per_axis(self.rng.uniform(0.001, 0.02, shape[axis]), axis=axis)
        return net.constant(self.rng.integers(-127, 128, shape, np.int8), quantization=scheme)

    def bias(self, net, count):
        return net.constant(self.rng.integers(-2000, 2000, count, np.int32))


# -- a whole network -------------------------------------------------------------------------------


def mobile_network(seed=0, classes=10, size=32):
    """A small int8 MobileNet: stem, inverted residuals, head; then probabilities in float32."""
    maker, net = Maker(seed), Network("mobile")
    x = net.input("image", (1, size, size, 3), "int8", scale(0.02, 3))

    def convolution(y, filters, kernel, name, stride=1, activation=RELU6):
        descriptor = Convolution2d(layout=DataLayout.NHWC, stride=(stride, stride), padding=(kernel // 2,) * 4, **activation)
        weights = maker.weights(net, (filters, kernel, kernel, y.shape[3]))
        return net.add(descriptor, y, weights, maker.bias(net, filters), name=name, quantization=scale(0.05, -20)).output

    def depthwise(y, name, stride):
        descriptor = DepthwiseConvolution2d(layout=DataLayout.NHWC, stride=(stride, stride), padding=(1,) * 4, **RELU6)
        weights = maker.weights(net, (1, 3, 3, y.shape[3]), axis=3)
        return net.add(descriptor, y, weights, maker.bias(net, y.shape[3]), name=name, quantization=scale(0.04, -10)).output

    y = convolution(x, 16, 3, "stem", 2)
    for block, (filters, stride) in enumerate([(16, 1), (24, 2), (24, 1), (32, 2), (32, 1)]):
        wide = depthwise(convolution(y, y.shape[3] * 3, 1, f"block{block}.expand"), f"block{block}.depthwise", stride)
        made = convolution(wide, filters, 1, f"block{block}.project", activation={})
        residual = ElementwiseBinary(operation="add")
        y = (
            made
            if made.shape != y.shape
            else net.add(residual, y, made, name=f"block{block}.add", quantization=scale(0.06)).output
        )
    pooled = net.global_pooling(y, "average", layout="NHWC", name="pool")
    flat = net.flatten(pooled, name="flat")
    weights = maker.weights(net, (classes, y.shape[3]))
    logits = net.fully_connected(flat, weights, maker.bias(net, classes), name="classes", quantization=scale(0.1))
    net.output(net.softmax(net.dequantize(logits, logits.known_info.quantization), name="softmax"), "probabilities")
    return net


def picture(seed=1, size=32):
    return np.random.default_rng(seed).integers(-128, 128, (1, size, size, 3), np.int8)


def reference_of(network):
    with Runtime(threads=1) as runtime:
        return load(runtime, network, [ReferenceBackend()]).run({"image": picture()})["probabilities"]


@pytest.fixture(scope="module")
def answer():
    return reference_of(mobile_network())


def steps_of(loaded):
    return [step.layer_kind for step in loaded.plan.steps]


def test_a_network_is_one_program_and_the_rest_falls_back_with_reasons(npu, runtime, answer):
    loaded = load(runtime, mobile_network(), [npu, ReferenceBackend()])
    assert steps_of(loaded).count("AcmeNpu.Compiled") == 1
    assert steps_of(loaded).count("dovetail.MemoryCopy") == 2
    np.testing.assert_array_equal(loaded.run({"image": picture()})["probabilities"], answer)
    assert loaded.memory.private_bytes > 20_000
    refusals = {layer.name: layer.refusals for layer in loaded.placement.fallbacks}
    assert "softmax" in refusals
    assert all(refusal.code == "kind" for several in refusals.values() for refusal in several)
    with pytest.raises(PlacementError, match=r"dovetail\.Softmax is not taken; 8 other kinds are"):
        load(runtime, mobile_network(), [npu])


def test_layers_one_by_one_answer_the_same(npu, runtime, answer):
    loaded = load(runtime, mobile_network(), [npu, ReferenceBackend()], passes=False)
    assert len(steps_of(loaded)) > 20
    np.testing.assert_array_equal(loaded.run({"image": picture()})["probabilities"], answer)


def test_a_layer_in_the_middle_that_it_refuses_makes_two_programs(npu, runtime):
    def network():
        net = Network("two")
        y = net.input("image", (1, 32, 32, 3), "int8", scale(0.02))
        maker = Maker(3)
        for filters, kernel in ((8, 3), (8, 9), (16, 3)):
            weights = maker.weights(net, (filters, kernel, kernel, y.shape[3]))
            name = f"kernel{kernel}.{filters}"
            y = net.convolution2d(y, weights, layout="NHWC", name=name, quantization=scale(0.05))
        net.output(y, "probabilities")
        return net

    loaded = load(runtime, network(), [npu, ReferenceBackend()])
    assert steps_of(loaded).count("AcmeNpu.Compiled") == 2
    (fallback,) = loaded.placement.fallbacks
    assert "weights.height is 9; 1 to 7 is taken" in str(fallback.refusals)
    np.testing.assert_array_equal(loaded.run({"image": picture()})["probabilities"], reference_of(network()))


def test_two_devices_with_different_limits_are_placed_differently(npu, runtime, answer):
    first, second = npu.devices()
    assert (first.memory_bytes, first.revision) != (second.memory_bytes, second.revision)
    places = {}
    for name in ("AcmeNpu", "AcmeNpu:1"):
        loaded = load(runtime, mobile_network(), [BackendRequest.parse(name), "CpuRef"], registry=Offering(npu))
        np.testing.assert_array_equal(loaded.run({"image": picture()})["probabilities"], answer)
        places[name] = {layer.name for layer in loaded.placement.fallbacks}
    assert places["AcmeNpu"] < places["AcmeNpu:1"]
    refused = loaded.placement.layer("block0.expand")
    assert refused.backend == "CpuRef"
    assert "its tensors take" in refused.refusals[0].reason
    assert second.name in refused.refusals[0].reason
    assert loaded.placement.layer("block4.expand").device == 1


def test_float_is_refused(npu, runtime):
    net = Network("float")
    net.output(net.pooling2d(net.input("x", (1, 8, 8, 8)), "max", 2, layout="NHWC"), "y")
    with pytest.raises(PlacementError, match=r"Pooling2d of float32 is not taken; int8 is"):
        load(runtime, net, [npu])


# -- what can go wrong with a device ---------------------------------------------------------------


@pytest.mark.parametrize(("state", "code"), [("driver_missing",) * 2, ("absent", "no_device"), ("busy", "device_busy")])
def test_states(npu, runtime, monkeypatch, state, code):
    for by_option in (True, False):
        options = {"state": state} if by_option else {}
        if not by_option:
            monkeypatch.setenv("ACME_NPU_STATE", state)
        with pytest.raises(BackendUnavailableError) as caught:
            load(runtime, mobile_network(), [npu, ReferenceBackend()], **options)
        assert caught.value.details["state"] == code
        assert "NPU" in str(caught.value) or "driver" in str(caught.value)
    monkeypatch.delenv("ACME_NPU_STATE")
    load(runtime, mobile_network(), [npu, ReferenceBackend()])


def test_an_injected_failure_names_its_layer_and_the_network_stays_usable(npu, runtime, answer):
    names = [layer.name for layer in mobile_network() if layer.kind != "dovetail.Constant"]
    for number in (1, 9):
        loaded = load(Runtime(threads=1), mobile_network(), [npu, ReferenceBackend()], fail_at=number)
        with pytest.raises(RunError) as caught:
            loaded.run({"image": picture()})
        assert caught.value.code == ErrorCode.STEP_FAILED
        failed = re.search(rf"command {number}, of '(.+?)', failed", str(caught.value))
        assert failed, str(caught.value)
        assert failed[1] in names
        assert {"stem", "classes"} <= set(caught.value.details["sources"])
        for _ in range(3):
            np.testing.assert_array_equal(loaded.run({"image": picture()})["probabilities"], answer)


def test_a_hang_ends_by_timeout(npu, runtime, answer):
    loaded = load(runtime, mobile_network(), [npu, ReferenceBackend()], hang_at=5)
    begin = time.monotonic()
    with pytest.raises(RunTimeoutError):
        loaded.run({"image": picture()}, timeout=0.2)
    assert time.monotonic() - begin < 2
    np.testing.assert_array_equal(loaded.run({"image": picture()}, timeout=20)["probabilities"], answer)


def test_latency_is_waited_for_without_the_interpreter(npu, runtime, answer):
    loaded = load(runtime, mobile_network(), [npu, ReferenceBackend()], latency_us=3000)
    begin = time.monotonic()
    np.testing.assert_array_equal(loaded.run({"image": picture()})["probabilities"], answer)
    assert time.monotonic() - begin > 0.06


def test_too_little_memory_is_an_error_and_leaves_nothing_behind(npu, runtime, answer):
    program = load(runtime, mobile_network(), [npu, ReferenceBackend()]).memory.private_bytes
    with Runtime(threads=1) as small:
        loaded = load(small, mobile_network(), [npu, ReferenceBackend()], sram_bytes=8192)
        for _ in range(2):
            with pytest.raises(RunError) as caught:
                loaded.run({"image": picture()})
            assert caught.value.code == ErrorCode.OUT_OF_MEMORY
    with Runtime(threads=1) as tight:  # one run at a time fits, again and again: all is given back
        for _ in range(20):
            loaded = load(tight, mobile_network(), [npu, ReferenceBackend()], sram_bytes=program)
            np.testing.assert_array_equal(loaded.run({"image": picture()})["probabilities"], answer)
            loaded.unload()


def test_four_threads(npu, runtime, answer):
    loaded = load(runtime, mobile_network(), [npu, ReferenceBackend()])
    wrong = []

    def work():
        for _ in range(25):
            result = loaded.run({"image": picture()})["probabilities"]
            if not np.array_equal(result, answer):
                wrong.append(result)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# -- compiling -------------------------------------------------------------------------------------


def test_progress_is_told_and_whoever_listens_can_give_up(npu):
    told = []
    arguments = {"backends": [npu, ReferenceBackend()], "options": {"AcmeNpu": {"compile_ms": 300}}}
    begin = time.monotonic()
    dovetail.load(mobile_network(), progress=lambda *report: told.append(report), **arguments).unload()
    assert time.monotonic() - begin >= 0.3
    assert {backend for backend, _, _ in told} == {"AcmeNpu"}
    fractions = [fraction for _, fraction, _ in told]
    assert fractions == sorted(fractions)
    assert len(set(fractions)) > 10
    assert {"stem", "classes"} <= {what for _, _, what in told}

    def give_up(backend, fraction, what):
        if fraction > 0.3:
            raise KeyboardInterrupt

    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        dovetail.load(mobile_network(), progress=give_up, **arguments | {"options": {"AcmeNpu": {"compile_ms": 6000}}})
    assert time.monotonic() - begin < 4


def compilations(npu):
    """How often the compiler of the simulated device ran."""
    return ctypes.c_int64.from_address(npu.extension("acme.compilations")).value


def test_placing_and_explaining_compile_nothing_and_a_load_does(npu, runtime, answer, tmp_path, monkeypatch):
    before = compilations(npu)
    placement = dovetail.optimize(mobile_network(), [npu, ReferenceBackend()]).placement
    assert re.search(r"one program of \d+ commands", placement.explain())
    model = tmp_path / "mobile.onnx"
    model.write_bytes(b"stands for the network that the next line gives")
    monkeypatch.setattr("dovetail.parse", lambda path, limits=None: mobile_network())
    default_registry().register(npu)
    try:
        shown = CliRunner().invoke(main, ["explain", str(model), "-b", "AcmeNpu:1,CpuRef"])
    finally:
        default_registry().unregister("AcmeNpu")
    assert shown.exit_code == 0, shown.output
    assert "one program of" in shown.output
    assert "AcmeNpu:1: [memory] its tensors take" in shown.output
    assert compilations(npu) == before
    loaded = load(runtime, mobile_network(), [npu, ReferenceBackend()])
    assert compilations(npu) == before + 1
    np.testing.assert_array_equal(loaded.run({"image": picture()})["probabilities"], answer)


def compiles(npu, folder):
    """Load and run with an artefact folder; return whether something compiled, and the answer."""
    told = []
    given = {"AcmeNpu": {"artefacts": str(folder)}}
    arguments = {"backends": [npu, ReferenceBackend()], "options": given}
    with dovetail.load(mobile_network(), progress=lambda *report: told.append(report), **arguments) as loaded:
        return bool(told), loaded.run({"image": picture()})["probabilities"]


def test_an_artefact_saves_compiling_and_a_bad_one_costs_it_only(npu, tmp_path, answer, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "dovetail")

    def check(compiled):
        found, result = compiles(npu, tmp_path)
        np.testing.assert_array_equal(result, answer)
        assert found == compiled, caplog.text

    check(compiled=True)
    check(compiled=False)
    (artefact,) = tmp_path.glob("*.artefact")
    good = artefact.read_bytes()
    for damaged in (good[: len(good) // 2], good[:-1], b"", bytes([good[-1] ^ 1]).join([good[:-1], b""])):
        artefact.write_bytes(damaged)
        check(compiled=True)
        assert artefact.read_bytes() == good
    monkeypatch.setenv("ACME_NPU_DRIVER", "2.0")
    check(compiled=True)
    assert "it was made by AcmeNpu compiler 1, driver 1.0; this is AcmeNpu compiler 1, driver 2.0" in caplog.text
    check(compiled=False)


def test_a_profile_names_the_layers_inside_the_program(npu, runtime):
    loaded = load(runtime, mobile_network(), [npu, ReferenceBackend()], latency_us=100)
    loaded.run({"image": picture()})
    with loaded.profiling() as profile:
        loaded.run({"image": picture()})
    (compiled,) = (layer for layer in profile.layers if layer.kind == "AcmeNpu.Compiled")
    assert compiled.device_ns > 100_000 * 10 > compiled.total_ns
    names = [span.name for span in profile.each_run[0].spans]
    assert names[0] == names[-1] == "copy"
    assert {"stem", "block1.depthwise", "block4.add", "classes"} <= set(names)


# -- what it costs ---------------------------------------------------------------------------------


def test_there_is_no_python_in_the_package_and_no_more_code_than_the_budget(npu_template):
    assert [path.name for path in (npu_template / "src" / PACKAGE).iterdir() if path.suffix != ".so"] == [
        "dovetail-backend.json"
    ]
    lines = []
    written = [*(npu_template / "csrc").iterdir(), *(npu_template / "tests").glob("*.py"), npu_template / "first_run.py"]
    for path in [path for path in written if path.name != "simulator.cpp"]:
        text = path.read_text("utf-8")
        text = re.sub(
            r"//.*" if path.suffix in (".h", ".cpp") else r'^""".*?"""|#.*',
            "",
            text,
            flags=re.M | re.S if path.suffix == ".py" else 0,
        )
        lines += [line for line in text.splitlines() if line.strip()]
        assert max(map(len, path.read_text("utf-8").splitlines())) <= 128, path
    print(f"{len(lines)} lines")  # shown by pytest -rP
    assert len(lines) <= BUDGET
