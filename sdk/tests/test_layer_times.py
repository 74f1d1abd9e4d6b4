"""Medians, shares and work of layers, against numbers that are worked out by hand."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail.graph.descriptor import Output
from dovetail.optimizer.macs import LayerWork, told_macs
from dovetail.runtime import Profile, Span
from dovetail_sdk.benchmark_tables import layer_tables, source_lines
from dovetail_sdk.layer_times import MeasuredLayer, macs_of_steps, measured_layers, sum_of, sums_by, work_of
from dovetail_sdk.rendering import console
from dovetail_sdk.summary import summarize, with_known_shapes

MODELS = Path(__file__).parents[3] / "shared" / "models"


def step(name: str, kind: str, backend: str = "Cpu", *sources: str, queue: int | None = None, copied: int = 0) -> Any:
    return SimpleNamespace(
        name=name, layer_kind=kind, backend=backend, sources=sources or (name,), tuned="", queue=queue, copied_bytes=copied
    )


def profile_of(steps: list[Any], runs: list[list[int]], spans: dict[int, list[int]] | None = None) -> Profile:
    """Make a profile: nanoseconds of each step in each run, and of the device for some steps."""
    profile = Profile("toy")
    for number, durations in enumerate(runs):
        at, times = 1_000_000 * (number + 1), []
        for duration in durations:
            times.append((at, at + duration))
            at += duration
        told = [Span(index, 0, "", 5_000, 5_000 + each[number]) for index, each in (spans or {}).items()]
        profile.add(steps, times, [], 7, told)
    return profile


def work(macs: dict[str, int | None]) -> list[LayerWork]:
    return [LayerWork(name, (name,), count) for name, count in macs.items()]


def layers_of(profile: Profile, macs: dict[str, int | None], **outputs: tuple[int, ...]) -> list[MeasuredLayer]:
    infos = {name: [SimpleNamespace(known_info=dovetail.TensorInfo(shape, "float32"))] for name, shape in outputs.items()}
    graph = [SimpleNamespace(name=name, outputs=slots, descriptor=Output()) for name, slots in infos.items()]
    loaded: Any = SimpleNamespace(optimized=SimpleNamespace(graph=graph))
    return measured_layers(loaded, profile, work(macs))


def test_one_slow_run_does_not_change_the_shares() -> None:
    steps = [step("stem", "Cpu.Convolve"), step("head", "dovetail.Softmax")]
    profile = profile_of(steps, [[3_000, 1_000], [3_100, 1_000], [90_000_000, 900], [2_900, 1_100], [3_000, 1_000]])
    stem, head = layers_of(profile, {"stem": 6_000}, stem=(1, 8, 4, 4))
    assert (stem.seconds, head.seconds) == pytest.approx((3e-6, 1e-6))
    assert (stem.share, head.share) == pytest.approx((0.75, 0.25))
    assert (stem.calls, stem.minimum_seconds) == (5, pytest.approx(2.9e-6))
    assert stem.mean_seconds == pytest.approx(18_002.4e-6), "the mean tells of the slow run"
    assert stem.gflops == pytest.approx(2 * 6_000 / 3e-6 / 1e9)
    assert (head.macs, head.gflops, head.outputs) == (0, None, ())
    assert stem.as_dict()["outputs"] == [{"dtype": "float32", "shape": [1, 8, 4, 4]}]


def test_a_device_that_tells_counts_for_the_host() -> None:
    steps = [step("stem", "Npu.Convolve", "Npu", queue=0), step("wait", "dovetail.Wait", "Npu", "stem", queue=0)]
    profile = profile_of(steps, [[500, 7_000], [400, 9_000], [600, 7_500]], {0: [6_000, 8_000, 6_500]})
    stem, wait = layers_of(profile, {"stem": 13_000})
    assert (stem.seconds, stem.host_seconds, stem.device_seconds) == pytest.approx((6.5e-6, 0.5e-6, 6.5e-6))
    assert (stem.share, wait.share, wait.host_seconds) == (1.0, 0.0, pytest.approx(7.5e-6))
    assert (stem.gflops, wait.macs) == (pytest.approx(4.0), 0)


def test_who_measured_a_device_is_said_once() -> None:
    steps = [step("stem", "Npu.Part", "Npu"), step("head", "Npu.Part", "Npu"), step("mean", "dovetail.Mean")]
    profile = Profile("toy")
    spans = [Span(0, -1, "by the driver", 2, 5), Span(0, -1, "first half", 2, 3), Span(1, -1, "by the driver", 6, 9)]
    profile.add(steps, [(1, 5), (5, 11), (11, 20)], [], 7, spans)
    layers = layers_of(profile, {})
    assert [layer.device_seconds for layer in layers] == [pytest.approx(3e-9), pytest.approx(3e-9), None]
    assert [layer.as_dict()["device_source"] for layer in layers] == ["by the driver", "by the driver", ""]
    assert source_lines(layers) == ["device times of Npu: by the driver"]
    assert not source_lines([])


def test_what_was_only_enqueued_has_no_rate() -> None:
    steps = [step("stem", "Npu.Convolve", "Npu", queue=0), step("wait", "dovetail.Wait", "Npu", "stem", queue=0)]
    layers = layers_of(profile_of(steps, [[500, 7_000]]), {"stem": 13_000})
    assert [(layer.enqueued, layer.gflops) for layer in layers] == [(True, None), (True, None)]
    whole = sum_of("all", layers)
    assert (whole.macs, whole.gflops) == (13_000, None)


def times_of(steps: list[Any], durations: list[int]) -> Any:
    return profile_of(steps, [durations]).layers


def test_each_layer_of_the_model_counts_once() -> None:
    steps = [
        step("x.to_Cpu", "dovetail.MemoryCopy", "core", "conv", copied=64),
        step("relu.frame", "Cpu.Frame", "Cpu", "conv", "relu"),
        step("relu", "Cpu.Convolve", "Cpu", "conv", "relu"),
        step("part", "Cpu.Strips", "Cpu", "dw", "pw", "add"),
        step("part.reorder", "Cpu.Reorder", "Cpu", "add", "pw"),
    ]
    macs: dict[str, int | None] = {"conv": 100, "relu": 0, "dw": 10, "pw": 1_000, "add": 1}
    times = times_of(steps, [9_000, 8_000, 100, 300, 50])
    # No step has the name of a layer of the part: the slowest that stands for it computes it.
    assert macs_of_steps(times, work(macs), {}) == [0, 0, 100, 1_011, 0], "slow copies and frames compute nothing"
    assert macs_of_steps(times, work({**macs, "pw": None}), {}) == [0, 0, 100, None, 0]
    assert macs_of_steps(times, work({**macs, "dw": None, "gone": None}), {}) == [0, 0, 100, None, 0]
    assert macs_of_steps(times, [], {}) == [0, 0, 0, 0, 0]


def test_layers_that_stand_for_one_node_of_a_file_count_by_their_names() -> None:
    """As a converter makes a convolution of one dimension, or an LSTM with its initial state."""
    steps = [
        step("conv/image.reorder", "Cpu.Reorder", "Cpu", "conv"),
        step("conv/2d", "Cpu.Convolve", "Cpu", "conv"),
        step("lstm/initial", "Cpu.Gather", "Cpu", "lstm"),
        step("lstm", "Cpu.Recurrence", "Cpu", "lstm"),
    ]
    layers = [
        LayerWork("conv/image", ("conv",), 0),
        LayerWork("conv/2d", ("conv",), 700),
        LayerWork("conv", ("conv",), 0),
        LayerWork("lstm/initial", ("lstm",), 0),
        LayerWork("lstm", ("lstm",), 90),
    ]
    assert macs_of_steps(times_of(steps, [900, 10, 800, 20]), layers, {}) == [0, 700, 0, 90]


def test_of_several_steps_those_that_multiply_share_the_work() -> None:
    """As a transposed convolution becomes several, and what interleaves their results."""
    steps = [
        step("up.phase 0", "Cpu.Convolve", "Cpu", "up"),
        step("up.phase 1", "Cpu.Convolve", "Cpu", "up"),
        step("up", "Cpu.Interleave", "Cpu", "up"),
        step("next", "Cpu.Convolve", "Cpu", "up", "next"),
    ]
    times = times_of(steps, [90, 10, 800, 50])
    given = macs_of_steps(times, work({"up": 1_001, "next": 70}), {"up.phase 0": 40, "up.phase 1": 20, "next": 70})
    assert given == [667, 334, 0, 70], "the next one reads of 'up', and multiplies for itself alone"
    given = macs_of_steps(times, work({"up": None, "next": 70}), {"up.phase 0": 40, "up.phase 1": 20, "next": 70})
    assert given == [None, None, 0, 70]


def test_sums() -> None:
    steps = [step("a", "Cpu.Convolve"), step("b", "Cpu.Pool"), step("c", "Npu.Convolve", "Npu"), step("d", "Cpu.Convolve")]
    layers = layers_of(profile_of(steps, [[100, 200, 400, 300]]), {"a": 1_000, "d": 3_000, "c": 500})
    convolve, npu, pool = sums_by(layers, lambda layer: layer.kind)
    assert [one.name for one in (convolve, npu, pool)] == ["Cpu.Convolve", "Npu.Convolve", "Cpu.Pool"]
    assert (convolve.layers, convolve.seconds, convolve.share, convolve.macs) == (2, pytest.approx(4e-7), 0.4, 4_000)
    assert convolve.gflops == pytest.approx(2 * 4_000 / 4e-7 / 1e9)
    assert (pool.macs, pool.gflops) == (0, None)
    cpu, _ = sums_by(layers, lambda layer: layer.backend)
    assert (cpu.name, cpu.layers, cpu.share) == ("Cpu", 3, pytest.approx(0.6))
    assert sum_of("all", layers).share == pytest.approx(1)
    assert json.loads(json.dumps(cpu.as_dict()))["macs"] == 4_000


def test_sums_of_what_is_not_known_are_not_known() -> None:
    layers = layers_of(profile_of([step("a", "Loop"), step("b", "Add")], [[1, 1]]), {"a": None, "b": 5})
    assert [(one.macs, one.gflops) for one in (sum_of("all", layers),)] == [(None, None)]


def test_no_time_at_all_divides_by_nothing() -> None:
    (layer,) = layers_of(profile_of([step("a", "Add")], [[0]]), {"a": 5})
    assert (layer.share, layer.gflops) == (0, None)


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("backends", [("CpuAcc",), ("CpuAcc", "Npu")])
def test_tables_fit(width: int, backends: tuple[str, ...]) -> None:
    names = [f"MobilenetV2/expanded/depthwise/conv_{n}/Relu6" for n in range(10, 22)]
    steps = [step(name, "CpuAcc.ConvolveDepthwise", backends[n % len(backends)]) for n, name in enumerate(names)]
    profile = profile_of(steps, [[1_234_567 + 10 * n for n in range(12)]] * 3)
    layers = layers_of(profile, dict.fromkeys(names, 123_456_789), **dict.fromkeys(names, (1, 1024, 128, 128)))
    text = io.StringIO()
    for one in layer_tables(layers, width):
        console(text, width).print(one)
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    assert max(map(len, lines)) <= width
    for number in range(10, 22):
        (line,) = [line for line in lines if f"conv_{number}/Relu6" in line]
        assert line.split()[-1] == "200", "2 x 123 M operations in 1.23 ms, in the same line"


def same_work(model: Any, backends: list[str]) -> None:
    """Check that layers have in sum the multiply-accumulates that `show` counts."""
    network = dovetail.parse(model) if isinstance(model, Path) else model
    shapes = {size: 1 for layer in network.inputs for size in layer.output.shape if isinstance(size, str)}
    summary = summarize(*with_known_shapes(network, shapes))
    with dovetail.load(network, backends=backends, shapes=shapes or None) as loaded:
        feeds = {
            spec.name: np.zeros([shapes.get(size, size) for size in spec.shape], spec.dtype.numpy) for spec in loaded.inputs
        }
        with loaded.profiling() as profile:
            loaded.run(feeds)
        layers = measured_layers(loaded, profile, work_of(network, shapes))
        told = {layer.name: told_macs(layer) for layer in loaded.optimized.graph}
    assert summary.macs
    assert sum_of("all", layers).macs == summary.macs
    assert all(layer.outputs for layer in layers if layer.macs)
    assert {layer.name for layer in layers if layer.macs and not told[layer.name]} == set(), "these do not multiply"
    # Less is multiplied than counted where taps read nothing but padding, or results are cut off.
    assert {layer.name for layer in layers if layer.macs and layer.macs > 4 * told[layer.name]} == set()


@pytest.mark.parametrize("backends", [["CpuRef"], ["CpuAcc", "CpuRef"]])
def test_work_of_the_demo_is_that_of_show(backends: list[str]) -> None:
    from dovetail_sdk.bundled import demo_model

    same_work(demo_model(), backends)


@pytest.mark.parametrize("seed", range(12))
def test_transposed_convolutions_count_where_they_multiply(seed: int) -> None:
    random = np.random.default_rng(seed)
    network = dovetail.Network("up")
    channels, filters, height, width, kernel, stride = (int(size) for size in random.integers(1, (9, 9, 12, 12, 6, 5)))
    dilation, padding = int(random.integers(1, 3)), int(random.integers(0, kernel))
    x = network.input("x", (2, channels, height + 4, width + 4))
    weights = random.standard_normal((channels, filters, kernel, kernel)).astype(np.float32)
    up = network.transpose_convolution2d(x, weights, stride=stride, dilation=dilation, padding=padding // 2, name="up")
    network.output(network.activation(up, "relu") if seed % 2 else up, "y")
    same_work(network, ["CpuAcc", "CpuRef"])


@pytest.mark.parametrize(
    "name",
    [
        "tflite_ops/gen/transpose_conv*.tflite",
        "tflite_ops/tflm_seanet/transpose_conv*.tflite",
        "tflite_ops/gen/*lstm*.tflite",
        "mobilenet_onnx/*float.onnx",
        "mobilenet_onnx/*qdq.onnx",
        "deeplabv3_257_float/*.tflite",
        "mobilenet_v1_0.75_192_quant/*.tflite",
        "silero_vad/silero_vad_openvino_16k.onnx",
        "ultraface/*.onnx",
    ],
)
def test_work_of_models_is_that_of_show(name: str) -> None:
    models = sorted(MODELS.glob(name))
    if not models:
        pytest.skip(f"the model is not there: {MODELS / name}")
    for model in models if name.startswith("tflite_ops") else models[:1]:
        same_work(model, ["CpuAcc", "CpuRef"])
