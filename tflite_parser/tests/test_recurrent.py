"""LSTMs of integers: what becomes of their tensors, and what is refused of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tflite_making import Model

import dovetail
from dovetail import DovetailError, ModelError, Quantization, UnsupportedModelError
from dovetail.layers import QuantizedLstm, QuantizedSvdf
from dovetail_tflite import parse

UNITS, INPUTS = 4, 3
HIDDEN = (2.0**-7, 3)
GATES = ("input", "forget", "cell", "output")


def made(
    *,
    normalizes: bool = False,
    peepholes: bool = False,
    projected: int | None = None,
    result: tuple[float, int] = HIDDEN,
    intermediates: int = 5,
    scaled: bool = True,
    cell_scale: float = 2.0**-11,
    variable: bool = True,
    **options: Any,
) -> bytes:
    """Return a model of one UNIDIRECTIONAL_SEQUENCE_LSTM."""
    rng, model = np.random.default_rng(0), Model()
    graph, numbers = model.main, [-1] * 24
    hidden = projected or UNITS

    def held(name: str, *shape: int, dtype: Any = np.int8, quantization: Any = (0.01, 0)) -> int:
        value = rng.integers(-100, 100, shape).astype(dtype)
        return graph.constant(name, value, quantization=quantization)

    shape = (2, 1) if options.get("time_major") else (1, 2)
    numbers[0] = graph.input("x", np.int8, (*shape, INPUTS), quantization=(0.02, -1))
    for place, gate in enumerate(GATES):
        numbers[1 + place] = held(f"{gate}_weights", UNITS, INPUTS)
        numbers[5 + place] = held(f"{gate}_recurrent", UNITS, hidden)
        numbers[12 + place] = held(f"{gate}_bias", UNITS, dtype=np.int32, quantization=(0.005, 0))
        if normalizes:
            numbers[20 + place] = held(f"{gate}_norm", UNITS, dtype=np.int16)
    for place in (9, 10, 11) if peepholes else ():
        numbers[place] = held(f"peephole_{place}", UNITS, dtype=np.int16)
    if projected:
        numbers[16] = held("projection", hidden, UNITS)
    numbers[18] = graph.tensor("state", np.int8, (1, hidden), quantization=HIDDEN, is_variable=variable)
    numbers[19] = graph.tensor("cell", np.int16, (1, UNITS), quantization=(cell_scale, 0), is_variable=variable)
    inner = [graph.tensor(f"gate_{place}", np.int16, (0,), quantization=(0.001 * (place + 1), 0)) for place in range(4)]
    inner.append(graph.tensor("hidden", np.int8, (0,), quantization=(0.02, 5) if scaled else None))
    y = graph.output(graph.tensor("y", np.int8, (*shape, hidden), quantization=result))
    graph.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", numbers, [y], options, intermediates=inner[:intermediates])
    return model.build()


def lstm(data: bytes) -> Any:
    [found] = [layer for layer in parse(data) if isinstance(layer.descriptor, QuantizedLstm)]
    return found


def test_what_becomes_of_it():
    layer = lstm(made(normalizes=True, cell_clip=2.0, proj_clip=0.5, projected=2))
    descriptor = layer.descriptor
    assert (descriptor.batch_first, descriptor.cell_clip, descriptor.projection_clip) == (True, 2.0, 0.5)
    assert descriptor.gate_scales == tuple(float(np.float32(0.001 * (place + 1))) for place in range(4))
    assert (descriptor.hidden_scale, descriptor.hidden_zero_point) == (float(np.float32(0.02)), 5)
    sources = dict(zip(descriptor.input_names, layer.inputs, strict=False))
    names = {name: slot.source.layer.name for name, slot in sources.items() if slot.source is not None}
    assert names["cell_recurrent_weights"] == "cell_recurrent"
    assert names["output_normalization"] == "output_norm"
    assert names["projection_weights"] == "projection"
    assert "input_peepholes" not in names
    assert [slot.info.quantization for slot in layer.outputs[:2]] == [Quantization.per_tensor(*HIDDEN)] * 2


def test_time_major_and_no_limits():
    descriptor = lstm(made(time_major=True)).descriptor
    assert (descriptor.batch_first, descriptor.cell_clip, descriptor.projection_clip) == (False, None, None)
    assert descriptor.gate_scales is None


def test_peepholes_in_their_order():
    layer = lstm(made(peepholes=True))
    sources = dict(zip(layer.descriptor.input_names, layer.inputs, strict=False))
    found = [sources[f"{gate}_peepholes"].source.layer.name for gate in ("input", "forget", "output")]
    assert found == ["peephole_9", "peephole_10", "peephole_11"]


def test_states_are_kept():
    x = np.full((1, 2, INPUTS), 50, np.int8)
    with dovetail.load(parse(made()), backends=["CpuRef"]) as network:
        first, second = (network.run({"x": x})["y"] for _ in range(2))
    assert (first != second).any()
    with dovetail.load(parse(made()), backends=["CpuRef"]) as network:
        assert (network.run({"x": x})["y"] == first).all()


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"intermediates": 4}, ModelError, "lacks the scale of its intermediate result 4"),
        ({"intermediates": 0}, ModelError, "lacks the scale of its intermediate result 4"),
        ({"scaled": False}, ModelError, "lacks the scale of its intermediate result 4"),
        ({"cell_scale": 0.001}, DovetailError, "initial_cell has the scale"),
        ({"cell_scale": 2.0**-8}, DovetailError, "initial_cell has the scale"),
        ({"result": (2.0**-6, 3)}, UnsupportedModelError, "quantized differently"),
        ({"peepholes": True, "projected": 2}, UnsupportedModelError, "projects to another size"),
        ({"cell_clip": -1.0}, DovetailError, "cell_clip is -1.0"),
    ],
)
def test_refused(changed, error, message):
    with pytest.raises(error, match=message):
        parse(made(**changed))


# -- SVDF of integers ------------------------------------------------------------------------------


def multiplied(x: int, factor: float) -> int:
    """Multiply as TensorFlow Lite does: 31 bits of the factor, ties away from zero, twice."""
    fraction, shift = np.frexp(np.float64(factor))
    multiplier, left, right = int(np.floor(fraction * 2**31 + 0.5)), max(int(shift), 0), max(-int(shift), 0)
    high = ((x << left) * multiplier + (1 << 30)) >> 31
    away = (abs(high) + ((1 << right) >> 1)) >> right
    return away if high >= 0 else -away


@pytest.mark.parametrize(("state_scale", "with_bias"), [(0.0021, True), (0.0001, False)])
def test_filters_over_time_of_integers(state_scale: float, with_bias: bool) -> None:
    """Factors of features above and below one; the state of one run is that of the next.

    TensorFlow Lite makes the factors in float32.
    """
    rng, model = np.random.default_rng(4), Model()
    graph, rank, units, steps, inputs = model.main, 2, 3, 4, 5
    x_scale, feature_scale, time_scale, y_scale, state_scale = (
        float(np.float32(one)) for one in (0.05, 0.012, 3e-5, 0.03, state_scale)
    )
    features = rng.integers(-127, 128, (rank * units, inputs)).astype(np.int8)
    times = rng.integers(-3000, 3000, (rank * units, steps)).astype(np.int16)
    bias = rng.integers(-60000, 60000, units).astype(np.int32) if with_bias else np.zeros(units, np.int32)
    numbers = [
        graph.input("x", np.int8, (2, inputs), quantization=(x_scale, -7)),
        graph.constant("features", features, quantization=(feature_scale, 0)),
        graph.constant("times", times, quantization=(time_scale, 0)),
        graph.constant("bias", bias, quantization=(state_scale * time_scale, 0)) if with_bias else -1,
        graph.tensor("state", np.int16, (2, rank * units * steps), quantization=(state_scale, 0), is_variable=True),
    ]
    y = graph.output(graph.tensor("y", np.int8, (2, units), quantization=(y_scale, 9)))
    graph.operator("SVDF", numbers, [y], {"rank": rank, "fused_activation_function": 1})
    of_features = float(np.float32(x_scale) * np.float32(feature_scale) / np.float32(state_scale))
    of_totals = float(np.float32(state_scale) * np.float32(time_scale) / np.float32(y_scale))
    state = np.zeros((2, rank * units, steps), np.int64)
    seen = set()
    network = parse(model.build())
    assert [layer.descriptor for layer in network if isinstance(layer.descriptor, QuantizedSvdf)] == [QuantizedSvdf(rank=rank)]
    with dovetail.load(network, ["CpuRef"]) as net:
        for _ in range(6):
            x = rng.integers(-128, 128, (2, inputs)).astype(np.int8)
            sums = (x.astype(np.int64) + 7) @ features.astype(np.int64).T
            state = np.roll(state, -1, 2)
            for place in np.ndindex(sums.shape):
                newest = multiplied(int(sums[place]), of_features)
                state[(*place, steps - 1)] = min(max(newest, -32768), 32767)
            total = (state * times).sum(2).reshape(2, units, rank).sum(2) + bias
            expected = [multiplied(int(one), of_totals) + 9 for one in total.reshape(-1)]
            found = net.run({"x": x})["y"]
            np.testing.assert_array_equal(found.reshape(-1), np.clip(expected, -128, 127))
            seen.update(found.reshape(-1).tolist())
    assert len(seen) > 8
    assert min(seen) < 9  # the activation is that of the integers, as in TensorFlow Lite


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"rank": 4}, ModelError, "has 6 filters of rank 4"),
        ({"rank": 0}, ModelError, "has 6 filters of rank 0"),
        ({"held": 23}, DovetailError, r"initial_state has shape \[2, 23\], expected \[2, 24\]"),
        ({"biases": 2}, DovetailError, r"bias has shape \[2\]"),
        ({"zero": 1}, DovetailError, "time_weights has the zero point 1"),
    ],
)
def test_filters_of_integers_refused(changed: dict[str, int], error: type[DovetailError], message: str) -> None:
    given = {"rank": 2, "held": 24, "biases": 3, "zero": 0} | changed
    model = Model()
    graph = model.main
    numbers = [
        graph.input("x", np.int8, (2, 5), quantization=(0.05, 0)),
        graph.constant("features", np.ones((6, 5), np.int8), quantization=(0.01, 0)),
        graph.constant("times", np.ones((6, 4), np.int16), quantization=(0.01, given["zero"])),
        graph.constant("bias", np.ones(given["biases"], np.int32), quantization=(1e-4, 0)),
        graph.tensor("state", np.int16, (2, given["held"]), quantization=(0.01, 0), is_variable=True),
    ]
    y = graph.output(graph.tensor("y", np.int8, (2, 3), quantization=(0.1, 0)))
    graph.operator("SVDF", numbers, [y], {"rank": given["rank"], "fused_activation_function": 1})
    with pytest.raises(error, match=message):
        parse(model.build())
