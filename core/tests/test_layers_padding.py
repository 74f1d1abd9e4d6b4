"""Padding of windows: in words and in numbers, and the positions that it gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail import layers as kinds
from dovetail.graph.tensor import TensorInfo
from dovetail.ground.errors import ErrorCode, GraphError
from dovetail.layers.network import Network

SAME = kinds.AutoPadding.SAME_UPPER
LOWER = kinds.AutoPadding.SAME_LOWER


@pytest.mark.parametrize("seed", range(20))
def test_window_positions_agree_with_counting(seed: int) -> None:
    from dovetail.layers.windows import window_output

    random = np.random.default_rng(seed)
    size, window, stride, dilation = (int(v) for v in random.integers((4, 1, 1, 1), (12, 4, 4, 3)))
    reach = dilation * (window - 1) + 1
    before, after = (int(v) for v in random.integers(0, reach, 2))
    padded = size + before + after
    if padded < reach:
        return
    floor = [p for p in range(0, padded, stride) if p + reach <= padded]
    assert window_output(size, window, stride, before, after, dilation) == len(floor)
    # ceil: one more if something is left over, unless it would start in the trailing padding
    # (PyTorch's rule)
    over = (padded - reach) % stride != 0 and len(floor) * stride < size + before
    assert window_output(size, window, stride, before, after, dilation, ceil_mode=True) == len(floor) + over


@pytest.mark.parametrize("mode", [SAME, LOWER])
@pytest.mark.parametrize("size", [1, 5, 8])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_same_padding_gives_ceil_of_size_over_stride(mode: kinds.AutoPadding, size: int, stride: int) -> None:
    conv = kinds.Convolution2d(stride=(stride, stride), dilation=(1, 2), auto_padding=mode)
    infos = [TensorInfo.of((1, 1, size, size)), TensorInfo.of((1, 1, 3, 2))]
    resolved = conv.resolve(infos, [None, None])
    assert isinstance(resolved, kinds.Convolution2d)
    assert resolved.auto_padding is kinds.AutoPadding.EXPLICIT
    assert resolved.infer(infos)[0].sizes[2:] == (-(-size // stride),) * 2
    top, left, bottom, right = resolved.padding
    assert (top <= bottom) and (left <= right) if mode is SAME else (top >= bottom and left >= right)


@pytest.mark.parametrize(
    ("padding", "expected"),
    [
        pytest.param("valid", (3, 3), id="valid"),
        pytest.param("same", (4, 4), id="same"),
        pytest.param("SAME", (4, 4), id="in capitals"),
        pytest.param("same_lower", (4, 4), id="same_lower"),
        pytest.param(1, (4, 4), id="one number"),
        pytest.param((0, 1), (3, 4), id="by axis"),
        pytest.param((0, 0, 2, 1), (4, 4), id="by side"),
    ],
)
def test_padding_in_words_and_numbers(padding: Any, expected: tuple[int, int]) -> None:
    """Sizes of 3x3 windows in steps of two on an image of 7x8."""
    network = Network("padded")
    x, weights = network.input("x", (1, 2, 7, 8)), np.zeros((2, 2, 3, 3), np.float32)
    made = [
        network.convolution2d(x, weights, stride=2, padding=padding),
        network.depthwise_convolution2d(x, weights[:, :1], stride=2, padding=padding),
        network.pooling2d(x, "max", 3, stride=2, padding=padding),
    ]
    assert {slot.shape for slot in made} == {(1, 2, *expected)}


def test_an_odd_element_of_the_same_padding_goes_where_the_word_says() -> None:
    for word, expected in (("same", (1, 0, 1, 1)), ("same_upper", (1, 0, 1, 1)), ("same_lower", (1, 1, 1, 0))):
        network = Network("padded")
        slot = network.pooling2d(network.input("x", (1, 1, 7, 8)), "max", 3, stride=2, padding=word)
        descriptor = slot.layer.descriptor
        assert isinstance(descriptor, kinds.Pooling2d)
        resolved = descriptor.resolve(slot.layer.input_infos, [None])
        assert isinstance(resolved, kinds.Pooling2d)
        assert resolved.padding == expected


def test_a_transposed_convolution_of_the_same_size() -> None:
    network = Network("padded")
    x, weights = network.input("x", (1, 2, 4, 5)), np.zeros((2, 3, 3, 3), np.float32)
    assert network.transpose_convolution2d(x, weights, stride=2, padding="same").shape == (1, 3, 8, 10)


@pytest.mark.parametrize("padding", ["sane", "", -1, (1, 2, 3), None, 1.5])
def test_padding_that_is_none_is_refused_with_what_there_is(padding: Any) -> None:
    network = Network("padded")
    with pytest.raises(GraphError, match="padding") as caught:
        network.pooling2d(network.input("x", (1, 1, 7, 8)), "max", 3, padding=padding)
    assert caught.value.code is ErrorCode.ATTRIBUTE_INVALID
    assert "give" in (caught.value.hint or "")
