"""VsiNpu as users meet it: options, devices, reports, artefacts, threads, deadlines."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest

import dovetail
from dovetail import (
    BackendUnavailableError,
    Device,
    DType,
    ErrorCode,
    Network,
    OptionError,
    Quantization,
    RunTimeoutError,
)
from dovetail.layers import Activation, Convolution2d, ElementwiseBinary, Permute, Softmax
from dovetail_npu_vsi import VsiNpuBackend, VsiNpuOptions
from dovetail_npu_vsi.chips import CHIPS, chip_of
from dovetail_npu_vsi.errors import VsiError
from dovetail_npu_vsi.model import ModelDriver
from dovetail_npu_vsi.options import device_named

Q = Quantization.per_tensor


def network(*, size=6, channels=3, filters=4, per_axis=False, name="net"):
    """One convolution of int8, channels last."""
    rng = np.random.default_rng(0)
    net = Network(name)
    x = net.input("x", (1, size, size, channels), DType.INT8, quantization=Q(0.05, 5))
    weights = rng.integers(-127, 128, (filters, 3, 3, channels)).astype(np.int8)
    scale = rng.uniform(0.001, 0.01, filters)
    quantization = Quantization.per_axis(scale, axis=0) if per_axis else Q(0.01)
    w = net.constant(weights, quantization=quantization)
    net.output(net.add(Convolution2d(layout="NHWC"), x, w, name="conv", quantization=Q(0.4, -3)).output, "y")
    return net


def picture(size=6, channels=3):
    return np.random.default_rng(1).integers(-128, 128, (1, size, size, channels)).astype(np.int8)


# --- options and devices --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"driver": "nvidia"}, "driver is 'nvidia', expected one of"),
        ({"quantization": "per_axis"}, "quantization is 'per_axis', expected one of"),
        ({"bytes_per_cycle": -1.0}, "bytes_per_cycle is -1.0"),
        ({"bytes_per_cycle": float("inf")}, "bytes_per_cycle is inf"),
        ({"device": "i.MX 95"}, r"device is 'i\.MX 95', expected one of i\.MX 8M Plus \(0x9f\), A311D \(0x88\)"),
        ({"divice": "A311D"}, "divice"),
    ],
)
def test_wrong_options_are_refused_in_words(options, said):
    with pytest.raises(OptionError, match=said):
        dovetail.optimize(network(), ["VsiNpu"], options={"VsiNpu": options})


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("i.MX 8M Plus", 0),
        ("imx8mplus", 0),
        ("8M PLUS", 0),
        ("0x9f", 0),
        ("a311d", 1),
        ("0x88", 1),
        ("...", None),
        ("x9", None),
    ],
)
def test_chips_are_found_by_parts_of_their_names(name, index):
    assert device_named(name) == index


def test_chips_are_devices_with_their_facts():
    devices = VsiNpuBackend().devices()
    assert [device.name for device in devices] == [chip.name for chip in CHIPS]
    assert [device.index for device in devices] == list(range(len(CHIPS)))
    assert devices[0].facts["macs_per_cycle"] == 1152
    assert chip_of(0x88) is CHIPS[1]
    assert chip_of(0x77) is None
    assert isinstance(devices[1], Device)


def test_the_chip_decides_what_is_computed():
    """Mantissas differ by chip, and so do some results, of which there are enough here."""
    net, x = network(size=40, channels=16, filters=16), picture(40, 16)
    results = []
    for request in ("VsiNpu", "VsiNpu:1"):
        with dovetail.load(net.copy(), [request]) as loaded:
            results.append(loaded.run({"x": x})["y"])
            assert CHIPS[len(results) - 1].name in loaded.placement.explain()
    assert np.abs(results[0].astype(int) - results[1]).max() <= 1


# --- reports --------------------------------------------------------------------------------------


def test_the_report_says_engine_cycles_and_bytes_of_each_operation():
    placement = dovetail.optimize(network(), ["VsiNpu"]).placement
    (row,) = placement.layers
    assert "estimate" in row.words
    steps = dict(row.steps)
    assert steps["conv"].startswith("convolution: NN, ")
    assert "cycles" in steps["conv"]
    assert "bytes" in steps["conv"]


def test_the_report_says_why_an_operation_is_slow_and_what_would_help():
    net = network(per_axis=True)
    (row,) = dovetail.optimize(net.copy(), ["VsiNpu"]).placement.layers
    slow = dict(row.steps)["conv"]
    assert slow.startswith("convolution: SH, ")
    assert slow.endswith("; its weights have a scale for each channel")
    told = "1 operation could be faster: the option VsiNpu.quantization=per_tensor gives weights one scale"
    assert row.words.count(told) == 1, "what would help is told once, not of each"
    (row,) = dovetail.optimize(net, ["VsiNpu"], options={"VsiNpu": {"quantization": "per_tensor"}}).placement.layers
    assert dict(row.steps)["conv"].startswith("convolution: NN, ")
    assert "scale for each channel" not in dict(row.steps)["conv"]
    assert "could be faster" not in row.words


def test_what_would_help_several_operations_is_told_once():
    rng = np.random.default_rng(0)
    net = Network("several")
    slot = net.input("x", (1, 8, 8, 4), DType.INT8, quantization=Q(0.05, 5))
    for number in range(3):
        scales = Quantization.per_axis(rng.uniform(0.001, 0.01, 4), axis=0)
        weights = net.constant(rng.integers(-127, 128, (4, 1, 1, 4)).astype(np.int8), quantization=scales)
        slot = net.add(Convolution2d(layout="NHWC"), slot, weights, name=f"conv{number}", quantization=Q(0.05, 5)).output
    net.output(slot, "y")
    placement = dovetail.optimize(net.copy(), ["VsiNpu"]).placement
    assert placement.explain(1000).count("quantization=per_tensor") == 1
    assert "3 operations could be faster" in placement.layers[0].words
    rows = dovetail.optimize(net, ["VsiNpu", "CpuRef"], options={"VsiNpu": {"shader": False}}).placement.layers
    assert len(rows) == 3
    assert all("; the option VsiNpu.quantization=per_tensor" in row.refusals[0].reason for row in rows)


def test_the_report_calls_cycles_of_the_shader_the_least():
    """The driver counts none of its arithmetic, so that a slower way may seem the faster."""
    for per_axis in (True, False):
        (row,) = dovetail.optimize(network(per_axis=per_axis), ["VsiNpu"]).placement.layers
        engines = {words.split(": ")[1].split(", ")[0] for _, words in row.steps}
        assert ("SH" in engines) is per_axis
        assert ("memory: at least " in row.words) is per_axis
        for _, words in row.steps:
            assert ("at least " in words) is (": SH, " in words)


def test_layers_that_are_not_taken_are_refused_with_the_reason():
    net = Network("floats")
    net.output(net.relu(net.input("x", (1, 4))), "y")
    placement = dovetail.optimize(net, ["VsiNpu", "CpuRef"]).placement
    (refusal,) = placement.layers[0].refusals
    assert (refusal.backend, refusal.code) == ("VsiNpu", "dtype")


def test_explaining_compiles_nothing(monkeypatch):
    monkeypatch.setattr(ModelDriver, "compile", lambda *_: pytest.fail("it was compiled"))
    assert dovetail.optimize(network(), ["VsiNpu"]).placement.layers


# --- artefacts ------------------------------------------------------------------------------------


def test_what_was_compiled_is_found_again(tmp_path, monkeypatch):
    options = {"VsiNpu": {"artefacts": str(tmp_path)}}
    with dovetail.load(network(), ["VsiNpu"], options=options) as net:
        first = net.run({"x": picture()})["y"]
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(ModelDriver, "compile", lambda *_: pytest.fail("it was compiled again"))
    with dovetail.load(network(), ["VsiNpu"], options=options) as net:
        np.testing.assert_array_equal(net.run({"x": picture()})["y"], first)


def test_another_chip_or_another_network_has_artefacts_of_its_own(tmp_path):
    options = {"VsiNpu": {"artefacts": str(tmp_path)}}
    for request, net in (("VsiNpu", network()), ("VsiNpu:1", network()), ("VsiNpu", network(filters=5))):
        dovetail.load(net, [request], options=options).unload()
    assert len(list(tmp_path.iterdir())) == 3


def tangled(seed):
    """Sums of inputs and of each other, read in another order than they were made in."""
    rng = np.random.default_rng(seed)
    net = Network("tangled")
    found = [net.input(f"in {number}", (2, 5), DType.UINT8, quantization=Q(0.1, 10)) for number in range(4)]
    found = [found[number] for number in rng.permutation(4)]
    for number in range(8):
        left, right = (found[at] for at in rng.choice(len(found), 2, replace=False))
        layer = net.add(ElementwiseBinary(operation="add"), left, right, name=f"sum {number}", quantization=Q(0.1, 10 + number))
        found.append(layer.output)
    for number, at in enumerate(rng.permutation(np.arange(4, 12))[:5]):
        net.output(found[at], f"out {number}")
    return net


@pytest.mark.parametrize("order", [("VsiNpu", ()), ((), "VsiNpu")], ids=["isolated first", "in this process first"])
def test_a_store_that_one_process_filled_serves_the_others(tmp_path, order):
    """A part has other names of inputs and outputs in a process of its own, in the same order."""
    rng = np.random.default_rng(0)
    for seed in range(4):
        net, folder = tangled(seed), tmp_path / str(seed)
        feeds = {one.name: rng.integers(0, 256, (2, 5)).astype(np.uint8) for one in net.inputs}
        results, kept = [], []
        for isolate, threads in zip(order, (2, 1), strict=True):
            options = {"VsiNpu": {"artefacts": str(folder)}}
            with dovetail.load(net, ["VsiNpu"], options=options, isolate=isolate, threads=threads) as loaded:
                results.append(loaded.run(feeds))
            kept.append({path.name: path.stat().st_mtime_ns for path in folder.iterdir()})
        assert kept[0] == kept[1]
        assert kept[0]
        for name, array in results[0].items():
            np.testing.assert_array_equal(array, results[1][name])


@pytest.mark.parametrize("isolate", [(), "VsiNpu"], ids=["in this process", "isolated"])
def test_what_a_program_holds_is_told(isolate):
    few, many = (dovetail.load(network(filters=count), ["VsiNpu"], isolate=isolate) for count in (4, 2000))
    with few, many:
        weights, told = 3 * 3 * 3, many.memory.private_bytes - few.memory.private_bytes
        assert 1996 * weights < told < 1996 * (20 * weights + 1000)
        assert few.memory.private_bytes > 4 * weights
        assert not many.memory.constant_bytes, "they are in the program"


# --- running --------------------------------------------------------------------------------------


def test_runs_from_many_threads_do_not_mix():
    net = network(size=20, channels=8, filters=8)
    rng = np.random.default_rng(0)
    pictures = [rng.integers(-128, 128, (1, 20, 20, 8)).astype(np.int8) for _ in range(8)]
    with dovetail.load(net, ["VsiNpu"]) as loaded:
        alone = [loaded.run({"x": one})["y"] for one in pictures]
        wrong = []

        def repeat(index):
            for _ in range(20):
                if not np.array_equal(loaded.run({"x": pictures[index]})["y"], alone[index]):
                    wrong.append(index)

        threads = [threading.Thread(target=repeat, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_deadline_ends_a_run_and_the_next_one_is_right():
    net = network(size=120, channels=64, filters=64)
    x = picture(120, 64)
    with dovetail.load(net, ["VsiNpu"]) as loaded:
        right = loaded.run({"x": x})["y"]
        with pytest.raises(RunTimeoutError):
            loaded.run({"x": x}, timeout=0.001)
        np.testing.assert_array_equal(loaded.run({"x": x})["y"], right)


@pytest.mark.parametrize("layer", [Softmax(axis=1), Permute(permutation=(0, 3, 1, 2))], ids=["softmax", "permute"])
def test_deadlines_hold_within_one_large_layer(layer):
    net = Network("large")
    x = net.input("x", (1, 40, 1000, 1000), DType.UINT8, quantization=Q(0.05))
    net.output(net.add(layer, x, quantization=Q(1 / 256) if isinstance(layer, Softmax) else Q(0.05)).output, "y")
    with dovetail.load(net, ["VsiNpu"]) as loaded, pytest.raises(RunTimeoutError):
        loaded.run({"x": np.zeros((1, 40, 1000, 1000), np.uint8)}, timeout=0.01)


@pytest.mark.parametrize(("x_scale", "y_scale"), [(1.0, 1e-40), (1e-38, 1e38), (1e38, 1e-38), (1e-45, 1e-45)])
def test_scales_of_any_size_saturate(x_scale, y_scale):
    """Nothing is said on standard error, and what is far too large is at its bound."""
    net = Network("scales")
    x = net.input("x", (1, 8), DType.UINT8, quantization=Q(x_scale))
    w = net.constant(np.full((4, 8), 2, np.uint8), quantization=Q(1.0))
    net.output(net.fully_connected(x, w, quantization=Q(y_scale, 3)), "product")
    net.output(net.add(ElementwiseBinary(operation="add"), x, x, quantization=Q(y_scale, 3)).output, "sum")
    net.output(net.add(Activation(function="leaky_relu", alpha=0.1), x, quantization=Q(y_scale, 3)).output, "function")
    with dovetail.load(net, ["VsiNpu"]) as loaded:
        results = loaded.run({"x": np.full((1, 8), 9, np.uint8)})
    for name, result in results.items():
        if x_scale / y_scale > 1e6:
            assert (result == 255).all(), name
        elif x_scale / y_scale < 1e-6:
            assert (result == 3).all(), name


def test_sizes_that_runs_bring_are_compiled_as_they_come():
    net = Network("open")
    x = net.input("x", ("N", 4, 4, 3), DType.UINT8, quantization=Q(0.05, 5))
    w = net.constant(np.full((2, 3, 3, 3), 130, np.uint8), quantization=Q(0.01, 120))
    net.output(net.add(Convolution2d(layout="NHWC"), x, w, quantization=Q(0.4, 100)).output, "y")
    with dovetail.load(net, ["VsiNpu"]) as loaded:
        one = loaded.run({"x": np.full((1, 4, 4, 3), 7, np.uint8)})["y"]
        three = loaded.run({"x": np.full((3, 4, 4, 3), 7, np.uint8)})["y"]
    np.testing.assert_array_equal(three, np.repeat(one, 3, axis=0))


def test_options_have_defaults_that_say_what_is_meant():
    assert VsiNpuOptions() == VsiNpuOptions(
        device="", driver="model", quantization="", shader=True, bytes_per_cycle=0.0, artefacts=""
    )


def test_errors_cross_to_other_processes():
    error = VsiError("the compiler failed", hint="try again", code=ErrorCode.COMPILE_FAILED, found=3)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.details) == (VsiError, str(error), error.details)


# --- the vendor's driver --------------------------------------------------------------------------


def test_without_the_vendors_driver_a_load_says_what_is_missing(monkeypatch):
    for name in ("DOVETAIL_VSI_SDK", "DOVETAIL_VSI_OVXLIB", "DOVETAIL_VSI_OPENVX"):
        monkeypatch.delenv(name, raising=False)
    options = {"VsiNpu": {"driver": "ovx"}}
    with pytest.raises(BackendUnavailableError, match="this machine has no NPU of VeriSilicon") as caught:
        dovetail.load(network(), ["VsiNpu", "CpuRef"], options=options)
    assert caught.value.details["state"] == "absent"
    assert 'driver="model"' in caught.value.hint
    placement = dovetail.optimize(network(), ["VsiNpu"], options=options).placement
    assert placement.layers[0].steps, "placing needs no driver"


def test_the_vendors_driver_runs_in_a_process_of_its_own(monkeypatch):
    monkeypatch.delenv("DOVETAIL_VSI_SDK", raising=False)  # with an SDK it has processes anyhow
    options = {"VsiNpu": {"driver": "ovx"}}
    (row,) = dovetail.optimize(network(), ["VsiNpu"], options=options).placement.layers
    assert row.words.endswith("in a process of its own")


# --- what may be left to others -------------------------------------------------------------------


def test_layers_of_the_shader_may_be_left_to_others():
    net = Network("scores")
    x = net.input("x", (1, 8), DType.INT8, quantization=Q(0.05))
    w = net.constant(np.ones((4, 8), np.int8), quantization=Q(0.01))
    scores = net.fully_connected(x, w, name="scores", quantization=Q(0.1))
    net.output(net.add(Softmax(), scores, name="shares", quantization=Q(1 / 256, -128)).output, "y")
    with dovetail.load(net, ["VsiNpu", "CpuRef"], options={"VsiNpu": {"shader": False}}) as loaded:
        assert {name: loaded.placement.layer(name).backend for name in ("scores", "shares")} == {
            "scores": "VsiNpu",
            "shares": "CpuRef",
        }
        (refusal,) = loaded.placement.layer("shares").refusals
        assert "it would run on the shader, and option shader is false" in refusal.reason
