"""Estimates beside what the vendor's driver printed, and what must hold of any estimate."""

from __future__ import annotations

import statistics
from dataclasses import replace

import numpy as np
import pytest
from measured_layers import DATA, measured, weights_like
from programs import of_one, random_convolution, tensor
from test_engines import chain, convolution, permuted, pooling

from dovetail_npu_vsi import program as p
from dovetail_npu_vsi.chips import CHIPS
from dovetail_npu_vsi.estimate import Estimate, estimates
from dovetail_npu_vsi.estimate.weights import statistics as statistics_of
from dovetail_npu_vsi.report import Report

IMX, A311D = CHIPS
BOTH = pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)


def total(rows: tuple[Estimate, ...]) -> int:
    return sum(row.cycles for row in rows)


def cycles(program: p.Program, chip=IMX, bytes_per_cycle=3.8) -> int:
    return total(estimates(program, chip, bytes_per_cycle))


# --- what was measured ----------------------------------------------------------------------------


def errors(file, chip):
    rows = [row for row in measured(file) if row.chip is chip]
    return [abs(cycles(row.program, chip, row.bytes_per_cycle) / row.cycles - 1) for row in rows]


@BOTH
def test_layers_take_what_the_driver_says(chip):
    found = errors("npu_layers.jsonl", chip)
    assert len(found) >= 100
    assert statistics.median(found) <= 0.04  # 1.8 and 2.7 % when written
    assert sorted(found)[int(0.9 * len(found))] <= 0.25  # 16 and 21 %


@BOTH
def test_convolutions_alone_take_what_the_driver_says(chip):
    """Movement and the shader are formulas that the driver has too; here it searches for tiles."""
    rows = [row for row in measured("npu_layers.jsonl") if row.chip is chip and row.kind.startswith(("conv", "depth", "full"))]
    found = [abs(cycles(row.program, chip, row.bytes_per_cycle) / row.cycles - 1) for row in rows]
    assert len(found) >= 100
    assert statistics.median(found) <= 0.07  # 3.6 and 4.8 % when written


@BOTH
def test_layers_move_what_the_driver_says(chip):
    rows = [row for row in measured("npu_layers.jsonl") if row.chip is chip]
    made = [estimates(row.program, chip, row.bytes_per_cycle) for row in rows]
    moved = [sum(one.bytes_read + one.bytes_written for one in each) for each in made]
    found = [abs(each / (row.bytes_read + row.bytes_written) - 1) for each, row in zip(moved, rows, strict=True)]
    assert statistics.median(found) <= 0.05


@pytest.mark.parametrize(("chip", "most"), [(IMX, 0.1), (A311D, 0.05)], ids=["i.MX 8M Plus", "A311D"])
def test_chains_take_what_the_driver_says(chip, most):
    found = errors("npu_chains.jsonl", chip)
    assert len(found) >= 50
    assert statistics.median(found) <= most


# On i.MX 8M Plus the driver cuts first blocks into bands, and so badly that writes may take ten
# times the bytes; the estimate does not.
@pytest.mark.parametrize(("chip", "most", "worst"), [(IMX, 0.15, 0.4), (A311D, 0.06, 0.15)], ids=["i.MX 8M Plus", "A311D"])
def test_whole_networks_take_what_the_driver_says(chip, most, worst):
    found = errors("npu_networks.jsonl", chip)
    assert len(found) >= 20
    assert statistics.median(found) <= most
    assert max(found) <= worst


def test_no_file_of_measurements_is_large():
    assert sum(path.stat().st_size for path in DATA.glob("npu_*.jsonl")) < 300_000


# Channels, rows, columns; the order; cycles at 3.8 bytes a cycle.
@pytest.mark.parametrize(
    ("shape", "order", "imx", "a311d"),
    [
        ((128, 128, 3), (2, 0, 1), 28701, 28701),
        ((64, 64, 3), (2, 0, 1), 55793, 9299),
        ((64, 64, 16), (2, 0, 1), 223944, 37324),
        ((28, 28, 64), (2, 0, 1), 350878, 29240),
        ((255, 13, 13), (1, 2, 0), 153207, 25535),
        ((1024, 7, 7), (1, 2, 0), 175439, 29240),
        ((320, 28, 28), (1, 2, 0), 134874, 134874),
        ((85, 80, 80), (1, 2, 0), 5204650, 289147),
    ],
)
def test_permutations_take_what_the_driver_says(shape, order, imx, a311d):
    """They are one operation, which is done in parts where there are few rows."""
    order = (0, *(axis + 1 for axis in order))
    permute = p.Permute(name="permute", inputs=(0,), output=1, order=order)
    program = of_one(permute, tensor((1, *shape)), tensor([(1, *shape)[axis] for axis in order]))
    assert cycles(program, IMX) == pytest.approx(imx, rel=0.002)
    assert cycles(program, A311D) == pytest.approx(a311d, rel=0.002)


# --- what must hold of any estimate ---------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("seed", range(40))
def test_more_bandwidth_is_never_slower(chip, seed):
    program = random_convolution(np.random.default_rng([seed, 4]), depthwise=seed % 4 == 0)
    found = [cycles(program, chip, bytes_per_cycle) for bytes_per_cycle in (1, 2, 3.8, 8, 16)]
    assert found == sorted(found, reverse=True)
    assert cycles(program, chip, 1000) == found[-1]  # the bus gives no more


@BOTH
def test_no_bandwidth_means_what_the_driver_supposes(chip):
    program = convolution(32, 32, 28, 3)
    assert estimates(program, chip, 0) == estimates(program, chip, chip.bytes_per_cycle)


@BOTH
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_more_filters_never_take_fewer_cycles(chip, kernel):
    found = [cycles(convolution(32, filters, 28, kernel), chip) for filters in (8, 24, 64, 96, 256)]
    assert found == sorted(found)


@BOTH
def test_estimates_count_products_traffic_and_cycles_that_can_be(chip):
    (row,) = estimates(convolution(32, 64, 28, 3), chip, 3.8)
    assert row.macs == 64 * 32 * 9 * 28 * 28
    assert row.bytes_written >= 64 * 28 * 28
    assert row.bytes_read >= 32 * 28 * 28 + 64 * 32 * 9 // 2  # weights of random bytes cannot be packed to half
    assert row.cycles >= row.macs / (2 * chip.macs_per_cycle)
    assert row.cycles >= (row.bytes_read + row.bytes_written) / 3.8


@BOTH
@pytest.mark.parametrize("seed", range(60))
def test_every_convolution_has_an_estimate(chip, seed):
    """Sizes at the limits of windows and buffers among them."""
    rng = np.random.default_rng([seed, 6])
    size, kernel = int(rng.integers(1, 150)), int(rng.integers(1, 18))
    program = convolution(int(rng.integers(1, 5)), int(rng.integers(1, 40)), size, kernel, dilation=int(rng.integers(1, 3)))
    (row,) = estimates(program, chip, 3.8)
    assert row.cycles > 0
    assert row.bytes_read > 0


@BOTH
def test_images_of_a_batch_cost_the_same(chip):
    one, three = (pooling("average", 8, 2, 2) for _ in range(2))
    tensors = tuple(replace(each, shape=(3, *each.shape[1:])) for each in three.tensors)
    assert cycles(replace(three, tensors=tensors), chip) == pytest.approx(3 * cycles(one, chip), abs=2)


def test_weights_with_fewer_values_are_packed_where_the_chip_codes_their_entropy():
    def of(values):
        program = convolution(128, 128, 14, 3)
        (operation,) = program.operations
        weights = p.Weights(values.reshape(128, 128, 3, 3), (0.01,), (128,), np.zeros(128, np.int32))
        return replace(program, operations=(replace(operation, weights=weights),))

    count = 128 * 128 * 9
    rich, poor, sparse = (of(weights_like(count, *each)) for each in ((7.0, 0.01), (3.0, 0.1), (3.0, 0.6)))
    assert _read(poor, IMX) < 0.6 * _read(rich, IMX)
    assert _read(poor, A311D) == pytest.approx(_read(rich, A311D), rel=0.05)  # there only zeros count
    assert _read(sparse, A311D) < 0.8 * _read(rich, A311D)


def _read(program: p.Program, chip) -> int:
    return estimates(program, chip, 3.8)[0].bytes_read


@pytest.mark.parametrize(("entropy", "zeros"), [(7.0, 0.01), (4.5, 0.05), (2.0, 0.5)])
@pytest.mark.parametrize("count", [10_000, 3_000_000])
def test_statistics_of_a_sample_are_those_of_all(entropy, zeros, count):
    values = np.random.default_rng(0).permutation(weights_like(count, entropy, zeros))
    found = statistics_of(p.Weights(values, (0.01,), (128,), np.zeros(1, np.int32)))
    assert found.entropy == pytest.approx(entropy, abs=0.03)
    assert found.zeros == pytest.approx(zeros, abs=0.01)


def test_what_is_between_two_operations_stays_on_the_chip_where_it_can():
    (first,) = convolution(16, 16, 14, 3).operations
    second = replace(first, name="second", inputs=(1,), output=2)
    shape = (1, 16, 14, 14)
    program = chain(first, second, shapes=[shape] * 3)
    rows = estimates(program, IMX, 3.8)
    assert rows[0].bytes_written == 0
    assert rows[1].bytes_written >= 16 * 14 * 14
    assert cycles(program, IMX) < sum(cycles(convolution(16, 16, 14, 3), IMX) for _ in range(2))
    assert estimates(program, A311D, 3.8)[0].bytes_written >= 16 * 14 * 14
    shown = chain(first, second, shapes=[shape] * 3, outputs=(1, 2))
    assert estimates(shown, IMX, 3.8)[0].bytes_written >= 16 * 14 * 14


@BOTH
def test_what_is_folded_takes_no_time(chip):
    (conv,) = convolution(8, 8, 6, 3).operations
    rescale = p.Requantize(name="rescale", inputs=(1,), output=2, low=0, high=255)
    rows = estimates(chain(conv, rescale, shapes=[(1, 8, 6, 6)] * 3), chip, 3.8)
    assert rows[1] == Estimate("", 0, 0, 0, 0, "", "")
    assert total(rows) == cycles(convolution(8, 8, 6, 3), chip)


def test_a_program_without_elements_costs_little():
    program = chain(permuted(0, 1), shapes=[(1, 1, 1, 1)] * 2)
    assert 0 < cycles(program) < 10_000


# --- reports --------------------------------------------------------------------------------------


def test_the_report_names_the_bandwidth_and_what_share_each_operation_has():
    program = convolution(16, 16, 28, 3, stride=2)
    report = Report(program, IMX, 8)
    assert "estimate at 8 bytes a cycle" in report.words
    assert "1 on TP+NN" in report.words
    ((name, said),) = report.steps()
    assert name == "conv"
    assert said.startswith("convolution: TP+NN, ")
    assert "(100.0 %)" in said
    assert said.endswith("pixels to be made channels first")


def test_the_report_has_a_name_for_every_operation():
    resize = p.Resize(name="resize", inputs=(0,), output=1, mode="nearest", align_corners=False, half_pixel=False)
    program = of_one(resize, tensor((1, 8, 5, 5)), tensor((1, 8, 10, 10)))
    ((_, said),) = Report(program, IMX, 0).steps()
    assert said.startswith("resampling: NN+TP, ")
