"""Where operations land: what the vendor's driver did, and reasons for what is slow."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from measured_layers import measured
from programs import of_one, random_convolution, random_weights, tensor

from dovetail_npu_vsi import program as p
from dovetail_npu_vsi.chips import CHIPS
from dovetail_npu_vsi.engines import Landing, averages_by_products, landing
from dovetail_npu_vsi.estimate import cost_of, flows

IMX, A311D = CHIPS


def convolution(
    channels: int, filters: int, size: int, kernel: int, *, stride: int = 1, dilation: int = 1, groups: int = 1, **more: Any
) -> p.Program:
    """A program of one convolution whose images keep their size, up to the stride."""
    reach = (kernel - 1) * dilation
    written = (size - 1) // stride + 1
    weights = random_weights(
        np.random.default_rng(1), (filters, channels // groups, kernel, kernel), per_channel=more.get("slow", False)
    )
    operation = p.Convolution(
        name="conv",
        inputs=(0,),
        output=1,
        weights=weights,
        stride=(stride, stride),
        padding=(reach // 2, reach // 2, reach - reach // 2, reach - reach // 2),
        dilation=(dilation, dilation),
        groups=groups,
        low=more.get("low", 0),
        high=more.get("high", 255),
    )
    x, y = tensor((1, channels, size, size)), tensor((1, filters, written, written), zero_point=more.get("zero_point", 128))
    return of_one(operation, x, y)


def pooling(
    function: str, size: int, kernel: int, stride: int, *, channels: int = 16, padding: int = 0, **more: Any
) -> p.Program:
    written = (size + 2 * padding - kernel) // stride + 1
    operation = p.Pooling(
        name="pool",
        inputs=(0,),
        output=1,
        function=function,
        size=(kernel, kernel),
        stride=(stride, stride),
        padding=(padding,) * 4,
        count_padding=more.get("count_padding", False),
        low=0,
        high=255,
    )
    return of_one(operation, tensor((1, channels, size, size)), tensor((1, channels, written, written)))


def landed(program: p.Program, chip: Any = IMX) -> Any:
    return landing(program.operations[0], program, chip)


# --- what was measured ----------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["npu_layers.jsonl", "npu_chains.jsonl", "npu_networks.jsonl"])
def test_layers_land_where_the_driver_put_them(file):
    rows = list(measured(file))
    found = [_engines(landing(one, row.program, row.chip).engine for one in row.program.operations) for row in rows]
    wrong = [
        (row.name, row.chip.name, row.engines, made) for row, made in zip(rows, found, strict=True) if made != set(row.engines)
    ]
    assert not wrong
    assert len(rows) > 40


def _engines(names: Any) -> set[str]:
    return {engine for name in names for engine in name.split("+") if engine}


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize("seed", range(60))
def test_estimates_use_the_engines_of_the_landing(chip, seed):
    program = random_convolution(np.random.default_rng([seed, 8]), depthwise=seed % 3 == 0)
    (operation,) = program.operations
    where = landing(operation, program, chip)
    cost = cost_of(operation, program, chip, flows(program, chip, 3.8)[operation], where)
    assert set(cost.engines) == _engines([where.engine])


# --- convolutions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("chip", "kernel", "engine"), [(IMX, 15, "NN"), (IMX, 16, "SH"), (A311D, 11, "NN"), (A311D, 12, "SH")])
def test_windows_up_to_a_limit_are_for_the_convolution_engine(chip, kernel, engine):
    made = landed(convolution(4, 4, 32, kernel), chip)
    assert made.engine == engine
    assert bool(made.reason) == (engine == "SH")
    if made.reason:
        assert f"{kernel - 1}x{kernel - 1}" in made.reason  # what would help


@pytest.mark.parametrize(("chip", "engine"), [(IMX, "TP+NN"), (A311D, "SH+NN")])
def test_strides_are_rearrangements_before_a_convolution(chip, engine):
    made = landed(convolution(16, 16, 28, 3, stride=2), chip)
    assert made.engine == engine
    assert "stride of 2x2" in made.reason


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize(("size", "kernel"), [(28, 1), (28, 2)])
def test_small_windows_with_a_stride_of_two_drop_results(chip, size, kernel):
    assert landed(convolution(16, 16, size, kernel, stride=2), chip) == Landing("NN")


def test_depthwise_strides_of_two_stay_on_the_convolution_engine_where_it_has_a_mode():
    odd = convolution(16, 16, 29, 3, stride=2, groups=16)
    assert landed(odd, IMX) == Landing("NN")
    assert landed(odd, A311D).engine == "SH+NN"
    assert landed(convolution(16, 16, 28, 3, stride=2, groups=16), A311D) == Landing("NN")


def test_dilation_is_part_of_the_window_or_splits_it():
    assert landed(convolution(16, 16, 28, 3, dilation=7)) == Landing("NN")
    split = landed(convolution(16, 16, 28, 3, dilation=8))
    assert split.engine == "TP+NN"
    assert "64 convolutions" in split.reason


def of_row(*numbers: int) -> p.Program:
    """The program of a line of `npu_ways.csv`."""
    images, channels, height, width, filters, depth, rows, columns, *steps, groups = numbers
    stride, dilation, padding = tuple(steps[:2]), tuple(steps[2:4]), tuple(steps[4:])
    reach = ((rows - 1) * dilation[0] + 1, (columns - 1) * dilation[1] + 1)
    written = [
        (size + padding[axis] + padding[axis + 2] - reach[axis]) // stride[axis] + 1
        for axis, size in enumerate((height, width))
    ]
    operation = p.Convolution(
        name="conv",
        inputs=(0,),
        output=1,
        weights=random_weights(np.random.default_rng(1), (filters, depth, rows, columns)),
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        low=0,
        high=255,
    )
    return of_one(operation, tensor((images, channels, height, width)), tensor((images, filters, *written)))


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_random_convolutions_land_where_the_driver_put_them(chip):
    with open(Path(__file__).parent / "data" / "npu_ways.csv", newline="") as file:
        rows = [row for row in csv.reader(file) if row[0] == chip.name]
    assert {row[-1] for row in rows} == {"NN", "SH"}
    assert len(rows) > 200
    for name, *numbers, engine in rows:
        program = of_row(*map(int, numbers))
        made = landed(program, chip)
        assert ("NN" in made.engine) == (engine == "NN"), (name, numbers, made)
        assert engine == "NN" or made.reason


def test_images_behind_the_first_are_not_split_by_a_dilation_of_one_axis():
    """The driver would, and computes them wrongly."""
    for chip, step in ((IMX, 4), (A311D, 3)):
        numbers = (4, 24, 23, 4, 4, 5, 1, 1, 1, step, 1, 0, 0, 0, 0, 1)
        assert "NN" in landed(of_row(1, *numbers), chip).engine
        assert landed(of_row(2, *numbers), chip).engine == "SH"


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize("groups", [1, 16])
def test_a_scale_for_each_filter_needs_the_shader(chip, groups):
    made = landed(convolution(16, 16, 28, 3, groups=groups, slow=True), chip)
    assert made.engine == "SH"
    assert made.reason == "its weights have a scale for each channel"
    assert "VsiNpu.quantization=per_tensor" in made.remedy


def test_bounds_other_than_a_relu_are_a_table_behind_the_product():
    assert landed(convolution(4, 4, 8, 3, low=128)) == Landing("NN")
    bounded = landed(convolution(4, 4, 8, 3, low=128, high=200))
    assert bounded.engine == "NN+TP"
    assert "ReLU" in bounded.reason


@pytest.mark.parametrize(("inputs", "engine"), [(26, "SH"), (46, "SH"), (24, "NN"), (64, "NN"), (22, "NN")])
def test_rows_without_factors_are_left_to_the_shader_by_chips_that_fill_kernels(inputs, engine):
    weights = random_weights(np.random.default_rng(2), (10, inputs))
    operation = p.FullyConnected(name="fc", inputs=(0,), output=1, weights=weights, low=0, high=255)
    program = of_one(operation, tensor((1, inputs)), tensor((1, 10)))
    assert landed(program, A311D).engine == engine
    assert landed(program, IMX).engine == "NN"


# --- windows --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chip", "size", "kernel", "stride", "engine"),
    [
        (IMX, 28, 2, 2, "NN"),
        (IMX, 27, 2, 2, "TP"),
        (A311D, 28, 2, 2, "TP"),
        (IMX, 28, 3, 2, "TP"),
        (IMX, 48, 12, 2, "TP+NN"),
        (IMX, 28, 3, 3, "SH"),
        (A311D, 28, 13, 1, "TP"),
    ],
)
def test_maxima(chip, size, kernel, stride, engine):
    made = landed(pooling("max", size, kernel, stride), chip)
    assert made.engine == engine
    assert bool(made.reason) == (engine == "SH")


@pytest.mark.parametrize(
    ("chip", "kernel", "channels", "engine"),
    [
        (IMX, 7, 1024, "NN"),
        (A311D, 7, 512, "NN"),
        (A311D, 7, 1024, "SH"),
        (IMX, 14, 64, "NN"),
        (A311D, 14, 64, "TP+NN"),
        (A311D, 12, 64, "SH"),
        (IMX, 16, 64, "SH"),
    ],
)
def test_averages_of_whole_images(chip, kernel, channels, engine):
    program = pooling("average", kernel, kernel, 1, channels=channels)
    assert landed(program, chip).engine == engine
    assert averages_by_products(program.operations[0], program, chip) == (engine == "NN")


def test_an_average_of_one_window_is_told_to_have_a_stride_of_one():
    made = landed(pooling("average", 7, 7, 7))
    assert made.engine == "SH"
    assert made.reason.endswith("one window needs a stride of 1")


@pytest.mark.parametrize(("count_padding", "engine"), [(True, "NN"), (False, "SH")])
def test_averages_that_leave_out_padding_are_for_the_shader(count_padding, engine):
    assert landed(pooling("average", 8, 3, 1, padding=1, count_padding=count_padding)).engine == engine


# --- several operations ---------------------------------------------------------------------------


def chain(*operations: p.Operation, shapes: Any, scales: Any = None, outputs: Any = None) -> p.Program:
    tensors = tuple(tensor(shape, (scales or {}).get(number, 0.05)) for number, shape in enumerate(shapes))
    written = {operation.output for operation in operations}
    inputs = tuple(number for number in range(len(shapes)) if number not in written)
    return p.Program("chain", tensors, operations, inputs, outputs or (operations[-1].output,))


def permuted(read: int, written: int) -> p.Permute:
    return p.Permute(name=f"permute {written}", inputs=(read,), output=written, order=(0, 1, 3, 2))


IMAGE = (1, 8, 6, 6)


@pytest.mark.parametrize(
    ("scales", "engine"), [((0.05, 0.05), "NN"), ((0.05, 0.9), "NN"), ((0.01, 0.99), "SH"), ((0.5, 1.1), "SH")]
)
def test_sums_of_results_are_products_if_their_scales_are_alike(scales, engine):
    add = p.Binary(name="add", inputs=(2, 3), output=4, function="add", low=0, high=255)
    program = chain(permuted(0, 2), permuted(1, 3), add, shapes=[IMAGE] * 5, scales={2: scales[0], 3: scales[1]})
    assert landing(add, program, IMX).engine == engine


def test_sums_of_inputs_are_for_the_shader_whatever_shape_they_are_given():
    add = p.Binary(name="add", inputs=(2, 3), output=4, function="add", low=0, high=255)
    reshape = p.Reshape(name="reshape", inputs=(0,), output=2)
    program = chain(reshape, permuted(1, 3), add, shapes=[(1, 48, 6), IMAGE, IMAGE, IMAGE, IMAGE])
    made = landing(add, program, IMX)
    assert made.engine == "SH"
    assert "those of results are not" in made.reason


def test_a_sigmoid_that_gates_its_own_input_is_one_table():
    gate = p.Function(name="gate", inputs=(1,), output=2, function="sigmoid", alpha=0.0, beta=0.0)
    multiply = p.Binary(name="multiply", inputs=(1, 2), output=3, function="multiply", low=0, high=255)
    program = chain(permuted(0, 1), gate, multiply, shapes=[IMAGE] * 4)
    assert landing(gate, program, IMX).engine == ""
    assert landing(multiply, program, IMX).engine == "TP"
    read_twice = chain(permuted(0, 1), gate, multiply, shapes=[IMAGE] * 4, outputs=(2, 3))
    assert landing(gate, read_twice, IMX).engine == "TP"
    assert landing(multiply, read_twice, IMX).engine == "SH"


def test_a_scale_behind_a_convolution_is_part_of_it():
    (conv,) = convolution(8, 8, 6, 3).operations
    rescale = p.Requantize(name="rescale", inputs=(1,), output=2, low=0, high=255)
    assert landing(rescale, chain(conv, rescale, shapes=[IMAGE] * 3), IMX).engine == ""
    assert landing(rescale, chain(conv, rescale, shapes=[IMAGE] * 3, outputs=(1, 2)), IMX).engine == "TP"
    assert landing(rescale, chain(permuted(0, 1), rescale, shapes=[IMAGE] * 3), IMX).engine == "TP"


def test_a_maximum_of_two_by_two_is_part_of_the_convolution_before_it():
    (conv,) = convolution(8, 8, 6, 3).operations
    maximum = p.Pooling(
        name="pool",
        inputs=(1,),
        output=2,
        function="max",
        size=(2, 2),
        stride=(2, 2),
        padding=(0, 0, 0, 0),
        count_padding=False,
        low=0,
        high=255,
    )
    assert landing(maximum, chain(conv, maximum, shapes=[IMAGE, IMAGE, (1, 8, 3, 3)]), A311D).engine == ""
    assert landing(maximum, chain(permuted(0, 1), maximum, shapes=[IMAGE, IMAGE, (1, 8, 3, 3)]), A311D).engine == "TP"


@pytest.mark.parametrize(("value", "engine"), [(128, ""), (0, "TP")])
def test_zeros_around_an_image_are_part_of_the_convolution_behind_it(value, engine):
    border = p.Pad(name="pad", inputs=(0,), output=1, before=(0, 0, 1, 1), after=(0, 0, 1, 1), value=value)
    (alone,) = convolution(8, 8, 8, 3).operations
    conv = p.Convolution(**{**alone.__dict__, "inputs": (1,), "output": 2, "padding": (0, 0, 0, 0)})
    program = chain(border, conv, shapes=[IMAGE, (1, 8, 8, 8), IMAGE])
    assert landing(border, program, IMX).engine == engine


def test_results_are_written_into_a_concatenation_of_channels():
    joined = p.Concat(name="join", inputs=(2, 3), output=4, axis=1)
    shapes = [IMAGE, IMAGE, IMAGE, IMAGE, (1, 16, 6, 6)]
    assert landing(joined, chain(permuted(0, 2), permuted(1, 3), joined, shapes=shapes), IMX).engine == ""
    of_inputs = p.Concat(name="join", inputs=(0, 1), output=4, axis=1)
    assert landing(of_inputs, chain(of_inputs, shapes=shapes), IMX).engine == "TP"


def test_a_reshape_copies_only_from_border_to_border():
    alone = p.Reshape(name="shape", inputs=(0,), output=1)
    assert landing(alone, chain(alone, shapes=[IMAGE, (1, 288)]), IMX).engine == "TP"
    behind = p.Reshape(name="shape", inputs=(1,), output=2)
    assert landing(behind, chain(permuted(0, 1), behind, shapes=[IMAGE, IMAGE, (1, 288)]), IMX).engine == ""
