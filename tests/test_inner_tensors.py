"""Ask a loaded network for tensors from its inside; NumPy in float64 says what they are."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import dovetail
from dovetail import ErrorCode, InputError, LoadedNetwork, ModelError, Network, Quantization, RunError, Runtime, RunTimeoutError
from dovetail.runtime.other_outputs import KEPT

Arrays = dict[str, np.ndarray[Any, Any]]
BACKENDS = [["CpuRef"], ["CpuAcc", "CpuRef"]]
RANDOM = np.random.default_rng(5)
WEIGHTS = RANDOM.standard_normal((6, 4)).astype(np.float32)
FILTER = RANDOM.standard_normal((4, 3, 3, 3)).astype(np.float32)
SCALE, OFFSET, MEAN = (RANDOM.standard_normal(4).astype(np.float32) for _ in range(3))
VARIANCE = RANDOM.uniform(0.5, 2, 4).astype(np.float32)
IMAGE = RANDOM.standard_normal((2, 3, 8, 8)).astype(np.float32)


def convolutional() -> Network:
    """A network of which little is left: normalization and activation go into the convolution."""
    network = Network("convolutional")
    x = network.input("image", ("N", 3, 8, 8))
    x = network.convolution2d(x, FILTER, padding=1, name="conv")
    x = network.batch_normalization(x, SCALE, OFFSET, MEAN, VARIANCE, name="norm")
    x = network.relu(x, name="act")
    low, high = network.split(x, 2, axis=1, name="halves")
    x = network.addition(low, high, name="joined")
    network.output(network.softmax(x, axis=-1, name="soft"), "probabilities")
    network.output(low, "low")
    return network


def expected(image: np.ndarray[Any, Any]) -> Arrays:
    """What each slot of that network is, in float64."""
    padded = np.pad(image.astype(np.float64), [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    found: Arrays = {"image": image, "conv": np.einsum("nchwij,ocij->nohw", windows, FILTER.astype(np.float64))}
    scale, offset, mean, variance = (one.astype(np.float64)[:, None, None] for one in (SCALE, OFFSET, MEAN, VARIANCE))
    found["norm"] = (found["conv"] - mean) / np.sqrt(variance + 1e-5) * scale + offset
    found["act"] = np.maximum(found["norm"], 0)
    found["halves:0"], found["halves:1"] = np.split(found["act"], 2, axis=1)
    found["joined"] = found["halves:0"] + found["halves:1"]
    powers = np.exp(found["joined"] - found["joined"].max(-1, keepdims=True))
    found["soft"] = powers / powers.sum(-1, keepdims=True)
    return found | {"low": found["halves:0"], "probabilities": found["soft"]}


def assert_are(found: Arrays, wanted: Arrays, names: list[str]) -> None:
    assert list(found) == names
    for name in names:
        assert found[name].dtype == np.float32
        # Sums of 27 products of numbers about 1, in float32.
        np.testing.assert_allclose(found[name], wanted[name], rtol=2e-5, atol=2e-5, err_msg=name)


@pytest.fixture(params=BACKENDS)
def net(request: pytest.FixtureRequest) -> Any:
    with Runtime(threads=1) as runtime:
        yield runtime.load(convolutional(), optimize={"backends": request.param})


# -- values ----------------------------------------------------------------------------------------


def test_every_slot_is_what_the_original_network_computes(net: LoadedNetwork) -> None:
    wanted = expected(IMAGE)
    names = list(reversed(wanted))
    assert_are(net.run({"image": IMAGE}, outputs=names), wanted, names)
    for name in names:
        assert_are(net.run({"image": IMAGE}, outputs=[name]), wanted, [name])


def test_what_is_swallowed_by_fusion_is_there_when_it_is_asked_for(net: LoadedNetwork) -> None:
    """The batch norm is folded into the convolution, whose own result then exists nowhere."""
    net.run({"image": IMAGE})
    first = net.placement.layers[0]
    assert first.sources[:2] == ("conv", "norm")
    assert_are(net.run({"image": IMAGE}, outputs=["conv"]), expected(IMAGE), ["conv"])
    assert net.placement.layers[0] == first  # the network itself stays what it was
    assert {row.sources for row in net.with_outputs(["conv"]).placement.layers} == {("conv",)}


def test_results_come_in_the_order_asked_for_each_once(net: LoadedNetwork) -> None:
    names = ["soft", "image", "probabilities", "conv"]
    assert_are(net.run({"image": IMAGE}, outputs=[*names, "soft"]), expected(IMAGE), names)
    assert_are(net.run({"image": IMAGE}, outputs=("low", "probabilities")), expected(IMAGE), ["low", "probabilities"])


def test_results_are_fresh_and_inputs_are_copied(net: LoadedNetwork) -> None:
    first = net.run({"image": IMAGE}, outputs=["image", "act"])
    second = net.run({"image": IMAGE}, outputs=["image", "act"])
    for name in first:
        assert not np.shares_memory(first[name], second[name])
        assert not np.shares_memory(first[name], IMAGE)


def test_own_outputs_need_no_other_plan(net: LoadedNetwork) -> None:
    plain = net.run({"image": IMAGE})
    chosen = net.run({"image": IMAGE}, outputs=["low"])
    assert chosen["low"].tobytes() == plain["low"].tobytes()
    assert net._others.loaded == []


def test_a_plain_run_is_the_same_before_and_after(net: LoadedNetwork) -> None:
    before = net.run({"image": IMAGE})
    plan = net.plan
    net.run({"image": IMAGE}, outputs=["conv", "act"])
    after = net.run({"image": IMAGE})
    assert net.plan is plan
    assert [(name, array.tobytes()) for name, array in before.items()] == [(n, a.tobytes()) for n, a in after.items()]


def test_call_and_submit_take_outputs_too(net: LoadedNetwork) -> None:
    wanted = expected(IMAGE)
    np.testing.assert_allclose(net(IMAGE, outputs=["conv"]), wanted["conv"], rtol=2e-5, atol=2e-5)
    assert_are(net(IMAGE, outputs=["act", "conv"]), wanted, ["act", "conv"])
    assert_are(net.submit({"image": IMAGE}, outputs=["joined"]).result(), wanted, ["joined"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_constants_and_inputs_that_were_given_beforehand(backend: list[str]) -> None:
    network = Network("constants")
    x = network.input("x", (2, 6))
    y = network.input("y", (2, 4))
    weights = network.constant(WEIGHTS, name="weights")
    product = network.matmul(x, weights, name="product")
    network.output(network.addition(product, y, name="sum"), "z")
    given = np.full((2, 4), 3, np.float32)
    feeds = {"x": np.ones((2, 6), np.float32)}
    with dovetail.load(network, backend, values={"y": given}) as net:
        found = net.run(feeds, outputs=["weights", "y", "product"])
    assert list(found) == ["weights", "y", "product"]
    np.testing.assert_array_equal(found["weights"], WEIGHTS)
    np.testing.assert_array_equal(found["y"], given)
    np.testing.assert_allclose(found["product"], np.ones((2, 6)) @ WEIGHTS.astype(np.float64), rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("integers", [None, False, True])
def test_quantized_networks_show_integers_and_what_they_stand_for(backend: list[str], integers: bool | None) -> None:
    """Between dequantize and quantize there are real numbers, also where integers replace them."""
    step = Quantization((0.05,), (3,))
    coarse = Quantization((0.25,), (-7,))
    network = Network("quantized")
    x = network.input("x", (2, 6))
    stored = network.quantize(x, step, name="stored")
    real = network.dequantize(stored, step, name="real")
    weights = network.dequantize(network.constant(np.arange(-12, 12, dtype=np.int8).reshape(6, 4)), step, name="weights")
    product = network.matmul(real, weights, name="product")
    network.output(network.dequantize(network.quantize(product, coarse, name="coarse"), coarse, name="out"), "y")
    array = RANDOM.uniform(-3, 3, (2, 6)).astype(np.float32)
    with dovetail.load(network, backend, integer_layers=integers) as net:
        found = net.run({"x": array}, outputs=["stored", "real", "product", "coarse", "y"])
    integers_of = np.clip(np.round(array.astype(np.float64) / np.float64(np.float32(0.05))) + 3, -128, 127)
    assert found["stored"].dtype == np.int8
    np.testing.assert_array_equal(found["stored"], integers_of)
    reals = (integers_of - 3) * np.float64(np.float32(0.05))
    np.testing.assert_allclose(found["real"], reals, rtol=1e-6)
    product_wanted = reals @ ((np.arange(-12, 12).reshape(6, 4) - 3) * np.float64(np.float32(0.05)))
    np.testing.assert_allclose(found["product"], product_wanted, rtol=1e-5, atol=1e-5)
    coarse_wanted = np.clip(np.round(product_wanted / 0.25) - 7, -128, 127)
    assert found["coarse"].dtype == np.int8
    assert np.abs(found["coarse"] - coarse_wanted).max() <= 1  # a product beside a half may round either way
    np.testing.assert_allclose(found["y"], (found["coarse"].astype(np.float64) + 7) * 0.25)


@pytest.mark.parametrize("backend", BACKENDS)
def test_reduced_floats_are_shown_as_the_network_has_them(backend: list[str]) -> None:
    with dovetail.load(convolutional(), backend, reduce_float="bfloat16") as net:
        found = net.run({"image": IMAGE}, outputs=["conv"])["conv"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected(IMAGE)["conv"], atol=0.2)  # 8 bits of 27 products about 1


# -- sizes -----------------------------------------------------------------------------------------


def test_symbolic_sizes(net: LoadedNetwork) -> None:
    inner = net.with_outputs(["conv", "low"])
    assert [(spec.name, spec.shape) for spec in inner.outputs] == [("conv", ("N", 4, 8, 8)), ("low", ("N", 2, 8, 8))]
    assert inner.inputs == net.inputs
    for batch in (1, 2, 1):
        image = IMAGE[:batch]
        assert_are(net.run({"image": image}, outputs=["conv", "low"]), expected(image), ["conv", "low"])
    assert net.with_outputs(["conv", "low"]) is inner


def test_sizes_that_were_given() -> None:
    with dovetail.load(convolutional(), "CpuRef", shapes={"N": 2}) as net:
        assert net.with_outputs(["act"]).outputs[0].shape == ("N", 4, 8, 8)
        assert_are(net.run({"image": IMAGE}, outputs=["act"]), expected(IMAGE), ["act"])
        assert_are(net.run({"image": IMAGE[:1]}, outputs=["act"]), expected(IMAGE[:1]), ["act"])


def test_shapes_that_values_decide() -> None:
    network = Network("decided")
    x, shape = network.input("x", (12,)), network.input("shape", (2,), np.int64)
    network.output(network.relu(network.reshape(x, shape, name="shaped"), name="positive"), "y")
    array = np.arange(-6, 6, dtype=np.float32)
    with dovetail.load(network, "CpuRef") as net:
        for sizes in ((3, 4), (2, 6)):
            found = net.run({"x": array, "shape": np.array(sizes)}, outputs=["shaped"])["shaped"]
            np.testing.assert_array_equal(found, array.reshape(sizes))


def test_an_optimized_network_is_made_again_with_its_request() -> None:
    optimized = dovetail.optimize(convolutional(), "CpuRef", shapes={"N": 2})
    with Runtime(threads=1) as runtime, runtime.load(optimized) as net:
        assert_are(net.run({"image": IMAGE}, outputs=["norm"]), expected(IMAGE), ["norm"])


# -- states ----------------------------------------------------------------------------------------


def test_a_run_for_other_outputs_belongs_to_the_same_stream() -> None:
    network = Network("running sum")
    x, total = network.input("x", (3,)), network.state("total", (3,))
    after = network.addition(total, x, name="after")
    network.write_state("total", after)
    network.output(network.relu(after, name="positive"), "y")
    feeds = {"x": np.array([1, -1, 2], np.float32)}
    with dovetail.load(network, "CpuRef") as net:
        net.run(feeds)
        found = net.run(feeds, outputs=["after", "total"])
        assert list(found) == ["after", "total"]
        np.testing.assert_array_equal(found["after"], 2 * feeds["x"])
        np.testing.assert_array_equal(found["total"], feeds["x"])
        np.testing.assert_array_equal(net.run(feeds, outputs=["y"])["y"], [3, 0, 6])
        other = net.new_state()
        np.testing.assert_array_equal(net.run(feeds, outputs=["after"], state=other)["after"], feeds["x"])
        np.testing.assert_array_equal(net.submit(feeds, outputs=["after"], state=other).result()["after"], 2 * feeds["x"])
        np.testing.assert_array_equal(net(feeds["x"], outputs=["after"]), 4 * feeds["x"])
        with pytest.raises(InputError, match="no output or layer 'total/next'"):
            net.run(feeds, outputs=["total/next"])
        inner = net.with_outputs(["after"])
        np.testing.assert_array_equal(inner.run(feeds)["after"], feeds["x"])  # a network of its own, with a stream of its own
    with Runtime(threads=1) as runtime, runtime.load(dovetail.optimize(network, "CpuRef")) as net:
        found = net.run({**feeds, "total": feeds["x"]}, outputs=["after"])
        assert list(found) == ["after"]
        np.testing.assert_array_equal(found["after"], 2 * feeds["x"])


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cnov", "'conv'"),
        ("halves", "'halves:1' or 'halves:0'"),
        ("halves:2", "'halves:0'"),
        ("Conv", "'conv'"),
        ("zzzz", "known: "),
    ],
)
def test_unknown_names_are_refused_with_close_ones(net: LoadedNetwork, name: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"no output or layer '{name}'") as error:
        net.run({"image": IMAGE}, outputs=["conv", name])
    assert error.value.code is ErrorCode.OUTPUT_NAME
    assert error.value.details["unknown"] == [name]
    assert hint in str(error.value.hint)


@pytest.mark.parametrize("given", ["conv", b"conv", [], (), [3], [None], 7, {"conv": None}])
def test_what_are_no_names_is_refused(net: LoadedNetwork, given: Any) -> None:
    for call in (lambda: net.run({"image": IMAGE}, outputs=given), lambda: net.with_outputs(given)):
        with pytest.raises(InputError, match="are no names") as error:
            call()
        assert error.value.code is ErrorCode.OUTPUT_NAME


def test_a_layer_named_like_a_slot_of_another_is_found_by_its_name() -> None:
    network = Network("colons")
    parts = network.split(network.input("x", (2, 2)), 2, name="a")
    network.output(network.unary(parts[1], "neg", name="a:1"), "y")
    array = np.array([[1, 2], [3, 4]], np.float32)
    with dovetail.load(network, "CpuRef") as net:
        found = net.run({"x": array}, outputs=["a:0", "a:1"])
    np.testing.assert_array_equal(found["a:0"], array[:1])
    np.testing.assert_array_equal(found["a:1"], -array[1:])


def test_names_are_of_the_original_network_in_a_network_with_other_outputs_too(net: LoadedNetwork) -> None:
    inner = net.with_outputs(["conv"]).with_outputs(["probabilities", "act"])
    assert_are(inner.run({"image": IMAGE}), expected(IMAGE), ["probabilities", "act"])


# -- from files ------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> g (float[2,3] x) => (float[2,3] y)'
        " <float[3] w = {1, 2, 3}> { m = Mul(x, w)  r = Relu(m)  y = Neg(r) }"
    )
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_file_is_read_again_whose_weights_were_released(file: Path, backend: list[str]) -> None:
    array = np.array([[1, -1, 2], [-2, 3, -3]], np.float32)
    names = [layer.name for layer in dovetail.parse(file).layers if layer.kind == "dovetail.ElementwiseBinary"]
    with dovetail.load(file, backend) as net:
        (found,) = net.run({"x": array}, outputs=names).values()
        np.testing.assert_array_equal(found, array * [1, 2, 3])


def test_a_file_that_was_changed_is_an_error_and_the_network_runs_on(file: Path) -> None:
    array = np.ones((2, 3), np.float32)
    (name,) = [layer.name for layer in dovetail.parse(file).layers if layer.kind == "dovetail.ElementwiseBinary"]
    with dovetail.load(file, "CpuRef") as net:
        file.write_bytes(file.read_bytes() + b"\0")
        with pytest.raises(ModelError, match="removed or changed") as error:
            net.run({"x": array}, outputs=[name])
        assert error.value.code is ErrorCode.MODEL_NOT_FOUND
        np.testing.assert_array_equal(net.run({"x": array}, outputs=["y"])["y"], -array * [1, 2, 3])


# -- bindings, profiles, deadlines -----------------------------------------------------------------


def test_bindings_and_placement_of_other_outputs(net: LoadedNetwork) -> None:
    inner = net.with_outputs(["conv", "probabilities"])
    place = np.empty((2, 4, 8, 8), np.float32)
    binding = inner.bind({"image": IMAGE}, {"conv": place})
    assert_are(binding.run(), expected(IMAGE), ["conv", "probabilities"])
    np.testing.assert_allclose(place, expected(IMAGE)["conv"], rtol=2e-5, atol=2e-5)
    assert {row.backend for row in inner.placement.layers} <= {"CpuRef", "CpuAcc"}


def test_a_profile_has_the_runs_for_other_outputs(net: LoadedNetwork) -> None:
    with net.profiling() as profile:
        net.run({"image": IMAGE}, outputs=["conv"])
    assert profile.runs == 1
    with net.profiling() as profile:
        net.run({"image": IMAGE}, outputs=["conv"])
        net.run({"image": IMAGE})
    assert profile.runs == 2
    net.run({"image": IMAGE}, outputs=["conv"])
    assert profile.runs == 2


def test_a_deadline_holds_for_making_the_plan_too() -> None:
    network = Network("long")
    x = network.input("x", (4,))
    for number in range(5000):
        x = network.softmax(x, name=f"layer{number}")
    network.output(x, "y")
    feeds = {"x": np.ones(4, np.float32)}
    with dovetail.load(network, "CpuRef", threads=1) as net:
        with pytest.raises(RunTimeoutError, match="while a plan was made"):
            net.run(feeds, outputs=["layer4990"], timeout=0.01)
        np.testing.assert_allclose(net.run(feeds, outputs=["layer4990"], timeout=60)["layer4990"], np.full(4, 0.25))


def test_limits_are_handed_on() -> None:
    network = Network("large")
    x = network.input("x", (8, 1))
    network.output(network.reduce(network.broadcast_to(x, (8, 100), name="wide"), "sum", axes=(1,)), "y")
    limits = dovetail.Limits(seconds=60, layers=20)
    with dovetail.load(network, "CpuRef", limits=limits) as net:
        assert net.with_outputs(["wide"])._limits == limits


# -- threads and ends ------------------------------------------------------------------------------


def test_many_threads_share_one_plan(net: LoadedNetwork) -> None:
    wanted = expected(IMAGE)
    barrier = threading.Barrier(8)

    def run(number: int) -> None:
        barrier.wait()
        for _ in range(5):
            name = ("conv", "act")[number % 2]
            assert_are(net.run({"image": IMAGE}, outputs=[name]), wanted, [name])

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(run, number) for number in range(8)]:
            done.result()
    assert len(net._others.loaded) == 2


def test_unloading_ends_them_all(net: LoadedNetwork) -> None:
    inner = net.with_outputs(["conv"])
    binding = inner.bind({"image": IMAGE})
    net.unload()
    for call in (
        lambda: net.run({"image": IMAGE}, outputs=["conv"]),
        lambda: net.with_outputs(["conv"]),
        lambda: inner.run({"image": IMAGE}),
        lambda: binding.run(),
    ):
        with pytest.raises(RunError) as error:
            call()
        assert error.value.code is ErrorCode.NETWORK_UNLOADED


def test_one_that_was_unloaded_is_made_again(net: LoadedNetwork) -> None:
    inner = net.with_outputs(["conv"])
    inner.unload()
    assert_are(net.run({"image": IMAGE}, outputs=["conv"]), expected(IMAGE), ["conv"])
    assert net.with_outputs(["conv"]) is not inner


def test_only_the_latest_are_kept_unless_somebody_holds_them(net: LoadedNetwork) -> None:
    held = net.with_outputs(["image"])
    dropped = weakref.ref(net.with_outputs(["act"]))
    used = weakref.ref(net.with_outputs(["conv"]))
    for number in range(KEPT - 1):
        net.with_outputs(["conv"])
        net.with_outputs([*sorted(expected(IMAGE))[: number + 2]])
    gc.collect()
    assert dropped() is None
    assert used() is not None
    assert_are(held.run({"image": IMAGE}), expected(IMAGE), ["image"])
    net.unload()
    with pytest.raises(RunError, match="was unloaded"):
        held.run({"image": IMAGE})


def test_a_network_that_is_dropped_leaves_nothing_behind() -> None:
    net = dovetail.load(convolutional(), "CpuRef")
    inner = weakref.ref(net.with_outputs(["conv"]))
    found = weakref.ref(net)
    del net
    assert found() is None
    assert inner() is None
