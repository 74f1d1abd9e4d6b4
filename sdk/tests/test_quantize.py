from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from click.testing import Result
from PIL import Image

import dovetail as dovetail_core
from dovetail import DataLayout, DType, Network, Quantization
from dovetail.graph.descriptor import Constant
from dovetail.layers import (
    Convolution2d,
    DepthwiseConvolution2d,
    Dequantize,
    Gather,
    GlobalPooling,
    Gru,
    MatMul,
    Permute,
    PoolingFunction,
)
from dovetail_sdk.bundled import demo_model
from dovetail_sdk.quantizing.planning import planned
from dovetail_sdk.quantizing.preparing import prepared
from dovetail_sdk.quantizing.ranges import Calibration, Range, quantization_of, rounded, weight_scales
from dovetail_sdk.quantizing.schemes import Scheme, with_smaller_weights

Invoke = Callable[..., Result]
Array = npt.NDArray[Any]

HELD_OUT = Path(__file__).resolve().parents[2] / "examples" / "digits" / "held_out"
INTEGERS = ("int8", "uint8")


@pytest.fixture(scope="module")
def digits() -> tuple[Array, Array]:
    """Return the held-out pictures and what they show."""
    pictures, labels = [], []
    for path in sorted(HELD_OUT.glob("*.png")):
        with Image.open(path) as sheet:
            tiles = (np.asarray(sheet, np.float32) / 255).reshape(4, 8, 9, 8).swapaxes(1, 2)
        pictures.append(tiles.reshape(-1, 1, 8, 8))
        labels += [int(path.stem)] * 36
    return np.concatenate(pictures), np.array(labels)


@pytest.fixture
def samples(tmp_path: Path, digits: tuple[Array, Array]) -> Path:
    """Save every fourth of the pictures."""
    np.savez(tmp_path / "samples.npz", image=digits[0][::4])
    return tmp_path / "samples.npz"


def quantized(dovetail: Invoke, model: Path | str, data: Path, output: Path, *options: object) -> dict[str, Any]:
    """Run the command and return its report."""
    result = dovetail("quantize", model, "--calibration", data, "-o", output, *options, "--json")
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def outputs_of(model: Path | Network, feeds: Mapping[str, Array], *names: str, backends: str = "CpuRef") -> dict[str, Array]:
    with dovetail_core.load(model, backends.split(",")) as net:
        return dict(net.run(dict(feeds), outputs=list(names) or None))


def decibels(reference: Array, other: Array) -> float:
    reference, other = reference.astype(np.float64), other.astype(np.float64)
    return float(10 * np.log10((reference**2).sum() / ((reference - other) ** 2).sum()))


# -- the demo --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["minmax", "percentile", "mse"])
@pytest.mark.parametrize("activations", INTEGERS)
def test_the_demo_loses_at_most_a_point(
    dovetail: Invoke, tmp_path: Path, digits: tuple[Array, Array], samples: Path, activations: str, method: str
) -> None:
    """Pictures that scales were found with do not count."""
    output = tmp_path / "int8.onnx"
    quantized(dovetail, "digits", samples, output, "--activations", activations, "--method", method)
    others = np.arange(len(digits[1])) % 4 != 0
    pictures, labels = digits[0][others], digits[1][others]
    accuracy = {}
    for model in (demo_model(), output):
        found = outputs_of(model, {"image": pictures})["probabilities"]
        accuracy[model.name] = float((found.argmax(axis=1) == labels).mean())
    assert accuracy["digits.onnx"] > 0.98
    assert accuracy["int8.onnx"] >= accuracy["digits.onnx"] - 0.01


def test_the_demo_runs_in_integers(dovetail: Invoke, tmp_path: Path, samples: Path, digits: tuple[Array, Array]) -> None:
    output = tmp_path / "int8.onnx"
    quantized(dovetail, "digits", samples, output)
    with dovetail_core.load(output, ["CpuAcc", "CpuRef"]) as net:
        net.run({"image": digits[0][:1]})
        infos = {layer.name: [slot.dtype for slot in layer.outputs] for layer in net.optimized.graph.layers if layer.outputs}
        homes = {row.name: row.backend for row in net.placement.layers}
    computing = (
        "stem.norm",
        "widen.norm",
        "pool1.integers",
        "refine.norm",
        "mix.norm",
        "mix.add",
        "flatten.integers",
        "classify",
    )
    assert {name: infos[name] for name in computing} == {name: [DType.INT8] for name in computing}
    assert {homes[name] for name in computing} == {"CpuAcc"}


def test_onnxruntime_agrees_within_a_step(dovetail: Invoke, tmp_path: Path, samples: Path, digits: tuple[Array, Array]) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="the reference is ONNX Runtime; see [bench] in pyproject.toml")
    output, name = tmp_path / "int8.onnx", "classify.dequantized"
    quantized(dovetail, "digits", samples, output)
    network = dovetail_core.parse(output)
    descriptor = network.layer(name).descriptor
    assert isinstance(descriptor, Dequantize)
    model = onnx.load(output)
    model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 10]))
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run([name], {"image": digits[0]})
    for backends in ("CpuRef", "CpuAcc,CpuRef"):
        found = outputs_of(output, {"image": digits[0]}, name, backends=backends)[name]
        steps = np.abs(found - expected) / descriptor.quantization.scale[0]
        # A sum between two steps may go either way in each of six layers, which others pass on.
        assert steps.max() < 2.5
        assert np.mean(steps > 0.5) < 0.05


def test_sizes_stay_open_and_names_are_kept(dovetail: Invoke, tmp_path: Path, samples: Path) -> None:
    output = tmp_path / "int8.onnx"
    quantized(dovetail, "digits", samples, output)
    model = onnx.load(output)
    onnx.checker.check_model(model, full_check=True)
    network = dovetail_core.parse(output)
    assert [(layer.name, layer.output.shape) for layer in network.inputs] == [("image", ("N", 1, 8, 8))]
    assert [layer.name for layer in network.outputs] == ["probabilities"]
    assert [one.dim_param or one.dim_value for one in model.graph.output[0].type.tensor_type.shape.dim] == ["N", 10]


def test_diff_compares_layer_by_layer(dovetail: Invoke, tmp_path: Path, samples: Path) -> None:
    output = tmp_path / "int8.onnx"
    quantized(dovetail, "digits", samples, output)
    picture = tmp_path / "picture.npy"
    with np.load(samples) as arrays:
        np.save(picture, arrays["image"][:1])
    result = dovetail("diff", "digits", output, "--layers", "-i", picture, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {"stem.norm", "widen.relu", "mix.add", "flatten", "classify"} <= {row["name"] for row in found["layers"]}
    assert found["parts_at"] is None


# -- the report ------------------------------------------------------------------------------------


def test_the_report_has_what_numpy_finds(dovetail: Invoke, tmp_path: Path, samples: Path, digits: tuple[Array, Array]) -> None:
    output = tmp_path / "int8.onnx"
    report = quantized(dovetail, "digits", samples, output, "--samples", 4)
    assert (report["samples"], report["compared"]) == (4, 4)
    chosen = digits[0][::4][[0, 22, 45, 67]]
    tensors = {"stem.conv": "stem.relu", "classify": "classify"}
    floats = outputs_of(demo_model(), {"image": chosen}, *tensors.values())
    integers = outputs_of(output, {"image": chosen}, *(f"{name}.dequantized" for name in tensors.values()))
    rows = {row["name"]: row for row in report["layers"]}
    for layer, tensor in tensors.items():
        expected = decibels(floats[tensor], integers[f"{tensor}.dequantized"])
        assert rows[layer]["snr_db"] == pytest.approx(expected, abs=0.2)
    assert [row["snr_db"] for row in report["layers"]] == sorted(row["snr_db"] for row in report["layers"])
    assert report["bytes_of_constants"][1] < 0.3 * report["bytes_of_constants"][0]
    assert report["layers_of_real_numbers"] == 1  # the softmax


def test_the_report_as_text(dovetail: Invoke, tmp_path: Path, samples: Path) -> None:
    saved = tmp_path / "report.json"
    result = dovetail("quantize", "digits", "--calibration", samples, "-o", tmp_path / "a.onnx", "--json", saved)
    assert result.exit_code == 0, result.output
    assert "SNR dB" in result.stdout
    assert "6 layers quantized, 3 pass integers on, 1 computes in float" in result.stdout
    worst = json.loads(saved.read_text("utf-8"))["layers"][0]["name"]
    assert result.stdout.index(worst) < result.stdout.index("stem.conv")


def test_layers_are_kept_by_name(dovetail: Invoke, tmp_path: Path, samples: Path) -> None:
    output = tmp_path / "int8.onnx"
    report = quantized(dovetail, "digits", samples, output, "--keep", "stem.*", "--keep", "classify")
    assert report["kept"] == ["stem.conv", "classify"]
    network = dovetail_core.parse(output)
    for name, is_stored in (("stem.norm", False), ("classify", False), ("widen.norm", True)):
        weights = network.layer(name).inputs[1].source
        assert weights is not None
        assert isinstance(weights.layer.descriptor, Dequantize) == is_stored


def test_the_worst_layers_are_kept(dovetail: Invoke, tmp_path: Path, samples: Path) -> None:
    options = ("--samples", 6)
    all_of_it = quantized(dovetail, "digits", samples, tmp_path / "all.onnx", *options)
    report = quantized(dovetail, "digits", samples, tmp_path / "some.onnx", *options, "--keep-worst", 2)
    assert len(report["kept"]) == 2
    alone = [row["snr_of_outputs_alone_db"] for row in report["layers"]]
    assert any(value is not None for value in alone)
    assert report["outputs"][0]["snr_db"] > all_of_it["outputs"][0]["snr_db"]


# -- samples ---------------------------------------------------------------------------------------


def test_folders_of_pictures_and_arrays(dovetail: Invoke, tmp_path: Path, digits: tuple[Array, Array]) -> None:
    """Both hold the same pixels, so that both give the same model."""
    written = []
    for kind in ("png", "npz"):
        folder = tmp_path / kind
        folder.mkdir()
        for number, picture in enumerate(digits[0][:200:20]):
            if kind == "png":
                Image.fromarray(np.rint(picture[0] * 255).astype(np.uint8)).save(folder / f"{number}.png")
            else:
                np.savez(folder / f"{number}.npz", image=picture[None])
        output = tmp_path / f"{kind}.onnx"
        assert quantized(dovetail, "digits", folder, output)["samples"] == 10
        written.append(outputs_of(output, {"image": digits[0][:8]})["probabilities"])
    np.testing.assert_allclose(written[0], written[1], atol=1e-3)  # some pixels differ in their last bit


@pytest.mark.parametrize(
    ("arrays", "options", "said"),
    [
        ({"pixels": np.zeros((2, 1, 8, 8))}, (), "no array is named after input 'image'"),
        ({"image": np.zeros((2, 1, 8, 9))}, (), "holds no samples of input 'image'"),
        ({"image": np.zeros((0, 1, 8, 8))}, (), "holds no samples of input 'image'"),
        ({"image": np.zeros((2, 1, 8, 8), complex)}, (), "is complex128"),
        ({"image": np.full((2, 1, 8, 8), np.nan)}, (), "array 'image' has elements that are no numbers (NaN)"),
        ({"image": np.full((2, 1, 8, 8), np.inf)}, (), "output 'probabilities' is finite in no sample"),
        ({"image": np.full((2, 1, 8, 8), 3e38)}, ("--scheme", "dynamic"), "output 'probabilities' is finite in no sample"),
        ({"image": np.zeros((2, 1, 8, 8))}, ("--keep", "nowhere*"), "there is no such layer"),
        ({"image": np.zeros((2, 1, 8, 8))}, ("--keep-worst", 9), "no layer would be left"),
        ({"image": np.zeros((2, 1, 8, 8))}, ("--keep", "*"), "no layer would be left"),
        ({"image": np.zeros((2, 1, 8, 8))}, ("--scheme", "int4"), "'int8', 'int16x8', 'float16', 'dynamic'"),
        ({"image": np.zeros((2, 1, 8, 8))}, ("--scheme", "dynamic", "--keep", "*"), "no layer would be left"),
        ({"image": np.zeros((2, 1, 8, 8))}, ("--scheme", "int16x8", "--activations", "uint8"), "is for scheme int8"),
    ],
)
def test_refusals(dovetail: Invoke, tmp_path: Path, arrays: dict[str, Array], options: tuple[object, ...], said: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)  # type: ignore[arg-type]  # names are those of arrays
    result = dovetail("quantize", "digits", "--calibration", tmp_path / "bad.npz", "-o", tmp_path / "a.onnx", *options)
    assert result.exit_code in (1, 2)
    assert said in " ".join(result.output.split())
    assert not (tmp_path / "a.onnx").exists()


def test_a_file_of_no_numbers_is_refused(dovetail: Invoke, tmp_path: Path) -> None:
    folder = tmp_path / "samples"
    folder.mkdir()
    np.save(folder / "one.npy", np.full((1, 1, 8, 8), np.nan, np.float32))
    result = dovetail("quantize", "digits", "--calibration", folder, "-o", tmp_path / "a.onnx")
    assert result.exit_code == 2
    assert "one.npy: array 'image' has elements that are no numbers" in " ".join(result.output.split())


def test_a_quantized_model_is_refused(dovetail: Invoke, tmp_path: Path, samples: Path) -> None:
    quantized(dovetail, "digits", samples, tmp_path / "once.onnx")
    result = dovetail("quantize", tmp_path / "once.onnx", "--calibration", samples, "-o", tmp_path / "twice.onnx")
    assert result.exit_code == 1
    assert "quantized already" in result.output


def test_float16_halves_the_weights(dovetail: Invoke, tmp_path: Path, samples: Path, digits: tuple[Array, Array]) -> None:
    output = tmp_path / "float16.onnx"
    report = quantized(dovetail, "digits", samples, output, "--scheme", "float16")
    assert report["bytes_of_constants"][1] == pytest.approx(report["bytes_of_constants"][0] / 2, rel=0.02)
    expected, found = (outputs_of(model, {"image": digits[0]})["probabilities"] for model in (demo_model(), output))
    assert 0 < np.abs(expected - found).max() < 2e-3


def test_dynamic_stores_weights_in_bytes(dovetail: Invoke, tmp_path: Path, samples: Path, digits: tuple[Array, Array]) -> None:
    output = tmp_path / "dynamic.onnx"
    report = quantized(dovetail, "digits", samples, output, "--scheme", "dynamic", "--keep", "stem.*")
    assert report["kept"] == ["stem.conv"]
    assert {row["name"] for row in report["layers"]} == {"widen.conv", "refine.conv", "mix.conv", "classify"}
    assert report["bytes_of_constants"][1] < 0.4 * report["bytes_of_constants"][0]
    constants = {one.name: onnx.numpy_helper.to_array(one) for one in onnx.load(output).graph.initializer}
    integers, scales = constants["classify.weight.int8"], constants["classify.weight.dequantized.scale"]
    real = onnx.numpy_helper.to_array(
        next(one for one in onnx.load(demo_model()).graph.initializer if one.name == "classify.weight")
    )
    assert integers.dtype == np.int8
    np.testing.assert_allclose(scales, np.abs(real).max(axis=1) / 127, rtol=1e-6)
    assert (np.abs(integers * scales[:, None] - real).max(axis=1) <= scales * 0.5001).all()
    expected, found = (outputs_of(model, {"image": digits[0]})["probabilities"] for model in (demo_model(), output))
    assert 0 < np.abs(expected - found).max() < 0.05


def test_dynamic_scales_lie_along_what_is_multiplied_apart() -> None:
    """Slices of unlike sizes keep their digits, whatever axis the kind multiplies apart."""
    random = np.random.default_rng(5)

    def weights(*shape: int, axis: int) -> Array:
        column = [1] * len(shape)
        column[axis] = -1
        sizes = 10.0 ** np.linspace(-4, 0, shape[axis]).reshape(column)
        return np.asarray(random.uniform(-1, 1, shape) * sizes, np.float32)

    network = Network("apart")
    words = network.input("words", (2, 3), DType.INT32)
    held = {
        "table": network.constant(weights(6, 4, axis=0), name="table"),
        "right": network.constant(weights(4, 5, axis=1), name="right"),
        "gates": network.constant(weights(12, 5, axis=0), name="gates"),
        "again": network.constant(weights(12, 4, axis=0), name="again"),
        "bias": network.constant(weights(12, axis=0), name="bias"),
    }
    rows = network.add(Gather(axis=0), held["table"], words, name="rows").output
    product = network.add(MatMul(), rows, held["right"], name="product").output
    lstm = network.add(Gru(batch_first=True), product, held["gates"], held["again"], held["bias"], name="gru")
    network.output(lstm.outputs[0], "y")
    graph = prepared(network, {})
    smaller, _ = with_smaller_weights(graph, Scheme.DYNAMIC, frozenset())
    axes = {
        layer.name: layer.descriptor.quantization.axis for layer in smaller.layers if isinstance(layer.descriptor, Dequantize)
    }
    assert axes == {"table.dequantized": 0, "right.dequantized": 1, "gates.dequantized": 0, "again.dequantized": 0}
    for name in ("table", "right", "gates", "again"):
        dequantize = smaller.layer(f"{name}.dequantized").descriptor
        stored = smaller.layer(f"{name}.int8").descriptor
        assert isinstance(dequantize, Dequantize)
        assert isinstance(stored, Constant)
        assert (np.abs(stored.value).max(axis=1 - (dequantize.quantization.axis or 0)) == 127).all()
    assert list(with_smaller_weights(graph, Scheme.DYNAMIC, frozenset({"gru"}))[1]) == [
        graph.layer("rows").output.name,
        graph.layer("product").output.name,
    ]


def test_tensors_of_16_bits(dovetail: Invoke, tmp_path: Path, samples: Path, digits: tuple[Array, Array]) -> None:
    """They lose less than those of 8 bits, and ONNX Runtime computes the same."""
    runtime = pytest.importorskip("onnxruntime", reason="the reference is ONNX Runtime; see [bench] in pyproject.toml")
    snr = {}
    for scheme in ("int8", "int16x8"):
        report = quantized(dovetail, "digits", samples, tmp_path / f"{scheme}.onnx", "--scheme", scheme)
        snr[scheme] = report["outputs"][0]["snr_db"]
    assert snr["int16x8"] > snr["int8"] + 3
    path = tmp_path / "int16x8.onnx"
    stored = {(one.name, one.data_type) for one in onnx.load(path).graph.initializer}
    assert {("widen.conv.weights", onnx.TensorProto.INT8), ("widen.conv.bias", onnx.TensorProto.INT32)} <= stored
    assert ("widen.relu.quantized.zero_point", onnx.TensorProto.INT16) in stored
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"image": digits[0]})
    for backends in ("CpuRef", "CpuAcc,CpuRef"):
        found = outputs_of(path, {"image": digits[0]}, backends=backends)["probabilities"]
        np.testing.assert_allclose(found, expected, atol=1e-3)
    assert np.mean(expected.argmax(axis=1) == digits[1]) > 0.98


# -- networks of other makes -----------------------------------------------------------------------


def of_tensorflow(random: np.random.Generator) -> Network:
    """Build what TensorFlow Lite's models look like: channels last, activations fused."""
    network, last = Network("last"), DataLayout.NHWC

    def weights(*shape: int) -> Array:
        return random.standard_normal(shape).astype(np.float32) / np.float32(np.sqrt(np.prod(shape[1:])))

    x = network.input("x", (1, 8, 8, 3))
    stem = network.add(
        Convolution2d(padding=(1, 1, 1, 1), layout=last, activation="relu"),
        x,
        weights(8, 3, 3, 3),
        weights(8, 1)[:, 0],
        name="stem",
    ).output
    deep = network.add(DepthwiseConvolution2d(layout=last, padding=(1, 1, 1, 1)), stem, weights(1, 3, 3, 8), name="deep").output
    mixed = network.add(Convolution2d(layout=last), deep, weights(8, 1, 1, 8), name="mixed").output
    added = network.addition(stem, mixed, name="added")
    joined = network.concat([added, mixed], axis=3, name="joined")
    pooled = network.add(GlobalPooling(function=PoolingFunction.AVERAGE, layout=last), joined, name="pooled").output
    flat = network.reshape(pooled, (1, 16), name="flat")
    network.output(network.fully_connected(flat, weights(5, 16), weights(5, 1)[:, 0], name="classes"), "y")
    return network


def test_channels_may_be_last(tmp_path: Path) -> None:
    from dovetail_onnx import export_network
    from dovetail_sdk.quantizing.calibration import Method
    from dovetail_sdk.quantizing.quantizer import Quantizer, Settings, silent

    random = np.random.default_rng(0)
    network = of_tensorflow(random)
    feeds = [{"x": random.standard_normal((1, 8, 8, 3)).astype(np.float32)} for _ in range(8)]
    settings = Settings(method=Method(Calibration.MINMAX))
    make, report = Quantizer(network, {}, [lambda one=one: one for one in feeds], settings, ["CpuRef"], silent).run()
    assert {row.name for row in report.layers} == {"stem", "deep", "mixed", "added", "pooled", "classes"}
    path = tmp_path / "last.onnx"
    path.write_bytes(export_network(make).SerializeToString())
    names = ("stem", "deep", "mixed")
    for one in feeds[:2]:
        expected = outputs_of(network, one)["y"]
        inner = outputs_of(network, one, *names)
        for name, found in outputs_of(path, one, *names).items():
            assert decibels(inner[name], found.transpose(0, 2, 3, 1)) > 25
        assert decibels(expected, outputs_of(path, one)["y"]) > 25
        assert decibels(expected, outputs_of(path, one, backends="CpuAcc,CpuRef")["y"]) > 25
    with dovetail_core.load(path, ["CpuAcc", "CpuRef"]) as net:
        integers = {
            layer.name for layer in net.optimized.graph.layers if layer.outputs and layer.outputs[0].dtype is DType.INT8
        }
    assert {"stem.linear", "deep", "mixed", "added", "joined.integers", "pooled", "flat.integers", "classes"} <= integers


def test_channels_are_moved_once() -> None:
    """What stands between convolutions takes the channels where they have them."""
    network = of_tensorflow(np.random.default_rng(0))
    graph = prepared(network, {})
    assert [layer.name for layer in graph.layers if isinstance(layer.descriptor, Permute)] == ["stem.first", "pooled.back"]
    feed = {"x": np.random.default_rng(1).standard_normal((1, 8, 8, 3)).astype(np.float32)}
    np.testing.assert_allclose(outputs_of(graph, feed)["y"], outputs_of(network, feed)["y"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scheme", ["int8", "dynamic"])
@pytest.mark.parametrize("bias", [None, (0.5, -1.0, 2.0, 0.0)])
def test_bias_correction_takes_out_the_mean(
    dovetail: Invoke, tmp_path: Path, scheme: str, bias: tuple[float, ...] | None
) -> None:
    """Weights of very unlike sizes within a filter lose their small ones to rounding."""
    random = np.random.default_rng(3)
    weights = (random.random((4, 64)) * 0.003).astype(np.float32)
    weights[:, 0] = 1
    node = f"y = Gemm<transB=1>(x, w{', b' if bias else ''})"
    ends = '<ir_version: 8, opset_import: ["" : 18]> g (float[N,64] x) => (float[N,4] y)'
    model = onnx.parser.parse_model(f"{ends} {{ {node} }}")
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    if bias:
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(bias), "b"))
    onnx.save(model, tmp_path / "model.onnx")
    x = random.random((64, 64)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=x)
    expected, means = x.astype(np.float64) @ weights.T + (bias or 0), {}
    for name, options in (("with", ()), ("without", ("--no-bias-correction",))):
        output = tmp_path / f"{name}.onnx"
        quantized(dovetail, tmp_path / "model.onnx", tmp_path / "samples.npz", output, "--scheme", scheme, *options)
        means[name] = np.abs((outputs_of(output, {"x": x})["y"] - expected).mean(axis=0)).max()
    assert means["without"] > 0.01
    assert means["with"] < 0.2 * means["without"]


def of_a_transformer(random: np.random.Generator) -> Network:
    """Make a network of products by stored matrices, and of others."""

    def weights(*shape: int) -> Array:
        return (random.standard_normal(shape) * 0.3).astype(np.float32)

    network = Network("transformer")
    x = network.input("x", ("N", 7, 16))
    wide = network.addition(network.matmul(x, weights(16, 24), name="wide"), weights(24), name="biased")
    back = network.matmul(network.relu(wide, name="act"), weights(16, 24), transpose_b=True, name="back")
    scores = network.matmul(back, x, transpose_b=True, name="computed")
    mixed = network.matmul(weights(7, 7), scores, name="stored on the left")
    turned = network.matmul(mixed, weights(7, 3), transpose_a=True, name="turned")
    network.output(network.matmul(turned, weights(1, 3, 3), name="stored of three axes"), "y")
    return network


@pytest.mark.parametrize("scheme", [Scheme.INT8, Scheme.INT16X8])
def test_products_by_stored_matrices(tmp_path: Path, scheme: Scheme) -> None:
    import onnxruntime

    from dovetail_onnx import export_network
    from dovetail_sdk.quantizing.quantizer import Quantizer, Settings, silent

    random = np.random.default_rng(0)
    network = of_a_transformer(random)
    feeds = [{"x": random.standard_normal((2, 7, 16)).astype(np.float32)} for _ in range(8)]
    settings = Settings(scheme=scheme, dtype=DType.INT8 if scheme is Scheme.INT8 else DType.INT16)
    samples = [lambda one=one: one for one in feeds]
    make, report = Quantizer(network, {"N": 2}, samples, settings, ["CpuRef"], silent).run()
    assert {row.name for row in report.layers} == {"wide", "back"}
    path = tmp_path / "products.onnx"
    path.write_bytes(export_network(make, ["N"]).SerializeToString())
    (expected,) = outputs_of(network, feeds[0]).values()
    least = 25 if scheme is Scheme.INT8 else 35
    for backends in ("CpuRef", "CpuAcc,CpuRef"):
        assert decibels(expected, outputs_of(path, feeds[0], backends=backends)["y"]) > least
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert decibels(expected, session.run(None, feeds[0])[0]) > least
    held = {one.name: onnx.numpy_helper.to_array(one) for one in onnx.load(path).graph.initializer}
    assert held["wide.weights"].dtype == np.int8
    assert held["wide.weights"].shape == (16, 24)
    with dovetail_core.load(path, ["CpuAcc", "CpuRef"], shapes={"N": 2}) as net:
        infos = {layer.name: [slot.dtype for slot in layer.outputs] for layer in net.optimized.graph.layers}
    assert (infos["wide"] == infos["back"] == [DType.INT8]) == (scheme is Scheme.INT8)


def test_what_cannot_be_quantized_stays_in_float() -> None:
    network = Network("mixed")
    x = network.input("x", (1, 4))
    weights = np.ones((4, 4), np.float32)
    wide = network.fully_connected(x, weights, name="wide")
    shaped = network.reshape(network.softmax(wide, axis=1), (4, 1), name="shaped")
    network.output(network.addition(shaped, shaped, name="doubled"), "y")
    plan = planned(prepared(network, {}))
    assert list(plan.computing) == ["wide"]
    assert plan.moving == []


# -- ranges ----------------------------------------------------------------------------------------


def seen(values: Array) -> Range:
    found = Range()
    found.widen(values)
    found.count(values)
    return found


def squares(values: Array, low: float, high: float, levels: int) -> float:
    """Sum the squared errors of rounding to levels, and of clipping."""
    step = (high - low) / levels
    return float(((np.clip(np.rint((values - low) / step), 0, levels) * step + low - values) ** 2).sum())


def test_percentiles_are_those_of_numpy() -> None:
    values = np.random.default_rng(0).standard_normal(100_000)
    low, high = seen(values).chosen(Calibration.PERCENTILE, 99.0, 255)
    assert [low, high] == pytest.approx(np.percentile(values, [0.5, 99.5]), abs=0.02)


def test_the_least_squares_are_found() -> None:
    """Against all ranges of a grid, by rounding each element."""
    random = np.random.default_rng(1)
    values = np.concatenate([random.standard_normal(50_000), [30.0, -25.0, 28.0]])
    low, high = seen(values).chosen(Calibration.MSE, 100.0, 15)
    least = min(squares(values, -25 * a, 30 * b, 15) for a in np.linspace(0.04, 1, 49) for b in np.linspace(0.04, 1, 49))
    assert squares(values, low, high, 15) < 2 * least
    assert squares(values, low, high, 15) < 0.5 * squares(values, -25, 30, 15)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 3.0), (0.0, 6.0), (-5.0, 0.0), (0.0, 0.0), (-1e-30, 2e-30), (0.0, 1e-44)])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_zero_is_exact_and_the_range_is_covered(low: float, high: float, dtype: DType) -> None:
    found = quantization_of(low, high, dtype)
    least, most = dtype.limits
    (scale,), (zero,) = found.scale, found.zero_point
    assert least <= zero <= most
    assert np.float32(scale) == scale
    assert (least - zero) * scale <= low + scale / 2
    assert (most - zero) * scale >= high - scale / 2


def test_weights_by_filter() -> None:
    weights = np.array([[1.0, -2.54], [0.0, 0.0], [1e-12, 2e-12]], np.float32)
    scales = weight_scales(weights, 0, np.array([0.0, 0.0, 0.001]))
    assert scales.axis == 0
    assert scales.scale[0] == pytest.approx(0.02)
    assert scales.scale[1] == pytest.approx(0.02)  # that of the others
    assert scales.scale[2] == pytest.approx(0.001)  # the floor
    stored = rounded(weights, scales, DType.INT8)
    assert stored.tolist() == [[50, -127], [0, 0], [0, 0]]


def test_infinities_do_not_widen() -> None:
    found = Range()
    found.widen(np.array([1.0, np.inf, np.nan, -2.0]))
    assert (found.low, found.high) == (-2.0, 1.0)
    assert Quantization.per_tensor(1.0) == quantization_of(0.0, 0.0, DType.INT8)
