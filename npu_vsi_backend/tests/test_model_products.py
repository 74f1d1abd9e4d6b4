"""Convolutions and fully connected layers of the model, bit for bit against NumPy in 64 bits."""

from __future__ import annotations

from dataclasses import replace

import large_sums
import numpy as np
import pytest
from program_reference import evaluate
from programs import ZERO_POINTS, of_one, random_bytes, random_convolution, random_weights, run, tensor

from dovetail_npu_vsi import program as p
from dovetail_npu_vsi.chips import CHIPS
from dovetail_npu_vsi.model.commands import CONVOLVE
from dovetail_npu_vsi.model.compiling import compile_program


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize("depthwise", [False, True], ids=["dense", "depthwise"])
@pytest.mark.parametrize("seed", range(60))
def test_convolutions(chip, depthwise, seed):
    rng = np.random.default_rng([seed, depthwise])
    program = random_convolution(rng, depthwise=depthwise)
    x = random_bytes(rng, program.tensors[0].shape)
    (made,) = run(program, [x], chip)
    np.testing.assert_array_equal(made, evaluate(program, chip, [x])[0])


@pytest.mark.parametrize("depthwise", [False, True], ids=["dense", "depthwise"])
@pytest.mark.parametrize("sram_bytes", [256, 1024, 4096, 20000])
@pytest.mark.parametrize("seed", range(12))
def test_pieces_that_fit_a_small_memory_give_the_same_bits(depthwise, sram_bytes, seed):
    """Bands, channels and their halos: whatever the memory, each result reads what it should."""
    rng = np.random.default_rng([seed, 7])
    program = random_convolution(rng, depthwise=depthwise)
    x = random_bytes(rng, program.tensors[0].shape)
    small = replace(CHIPS[0], sram_bytes=sram_bytes)
    np.testing.assert_array_equal(run(program, [x], small)[0], evaluate(program, small, [x])[0])


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [(1, 1, 1), (3, 5, 7), (1, 17, 8), (2, 33, 129), (4, 4, 2048), (1, 1001, 64)]
)
@pytest.mark.parametrize("per_channel", [False, True], ids=["one scale", "a scale each"])
def test_fully_connected(chip, rows, columns, depth, per_channel):
    rng = np.random.default_rng([rows, columns, depth])
    weights = random_weights(rng, (columns, depth), per_channel=per_channel)
    operation = p.FullyConnected(name="fc", inputs=(0,), output=1, weights=weights, low=0, high=255)
    x = tensor((rows, depth), 0.02, int(rng.choice(ZERO_POINTS)))
    program = of_one(operation, x, tensor((rows, columns), 0.02 * max(weights.scale) * 300 * depth**0.5, 100))
    values = random_bytes(rng, x.shape)
    np.testing.assert_array_equal(run(program, [values], chip)[0], evaluate(program, chip, [values])[0])


@pytest.mark.parametrize("zero_point", [0, 3, 255])
@pytest.mark.parametrize("exponent", [-1, -3, -8, -14, -20])
def test_ties_go_to_the_even_integer(zero_point, exponent):
    """Sums of every residue by a power of two: one weight of 1, biases that walk over the ties."""
    sums = np.arange(-2000, 2000, dtype=np.int32) * (1 << max(-exponent - 4, 0))
    ones = np.full((len(sums), 1), 1, np.uint8)
    weights = p.Weights(ones, (1.0,), (0,), sums)
    operation = p.FullyConnected(name="fc", inputs=(0,), output=1, weights=weights, low=0, high=255)
    program = of_one(operation, tensor((1, 1), 1.0, 0), tensor((1, len(sums)), 2.0**-exponent, zero_point))
    (made,) = run(program, [np.zeros((1, 1), np.uint8)])
    expected = np.clip(np.rint(sums * 2.0**exponent) + zero_point, 0, 255)
    np.testing.assert_array_equal(made[0], expected)


def test_the_mantissa_of_a311d_is_shorter():
    """2^16 + 1 of 2^17 is a mantissa of 17 bits: one chip keeps its last bit, one cuts it off."""
    weights = p.Weights(
        np.full((1, 1), 255, np.uint8), (float(np.float32(1 + 2.0**-16)),), (0,), np.array([2**24 - 65025], np.int32)
    )
    operation = p.FullyConnected(name="fc", inputs=(0,), output=1, weights=weights, low=0, high=255)
    program = of_one(operation, tensor((1, 1), 1.0, 0), tensor((1, 1), float(2**17), 0))
    made = [int(run(program, [np.full((1, 1), 255, np.uint8)], chip)[0][0, 0]) for chip in CHIPS]
    assert made == [128, 128]
    near = replace(weights, bias=np.array([2**24 + 2**16 - 65025 - 256], np.int32))
    program = of_one(replace(operation, weights=near), *program.tensors)
    made = [int(run(program, [np.full((1, 1), 255, np.uint8)], chip)[0][0, 0]) for chip in CHIPS]
    assert made == [129, 128]


@pytest.mark.parametrize(("bias", "expected"), [(-(2**31), 0), (2**31 - 1, 0), (2**31 - 1 - 9 * 255 * 255, 255)])
def test_sums_wrap_in_32_bits_with_their_bias(bias, expected):
    weights = p.Weights(np.full((2, 9), 255, np.uint8), (0.5,), (0,), np.array([bias, 0], np.int32))
    operation = p.FullyConnected(name="fc", inputs=(0,), output=1, weights=weights, low=0, high=255)
    program = of_one(operation, tensor((1, 9), 0.5, 0), tensor((1, 2), 1e-3, 7))
    values = np.full((1, 9), 255, np.uint8)
    assert run(program, [values])[0].tolist() == [[expected, 255]]
    np.testing.assert_array_equal(run(program, [values])[0], evaluate(program, CHIPS[0], [values])[0])


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize("layer", large_sums.LAYERS.values(), ids=large_sums.LAYERS)
def test_sums_of_the_shader_are_rounded_where_floats_are(layer, chip):
    program, x = large_sums.program_of(layer, np.random.default_rng(len(layer.x) + layer.weights[0]))
    made, expected = run(program, [x], chip)[0], evaluate(program, chip, [x])[0]
    np.testing.assert_array_equal(made, expected)
    assert np.unique(made).size > 20
    commands = compile_program(program, chip, lambda *_: None).commands
    assert (commands["chunk"][commands["opcode"] == CONVOLVE] > 0).all()
