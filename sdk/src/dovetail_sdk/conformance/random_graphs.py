"""Random graphs of layers that a backend takes.

They have residuals, shared outputs, diamonds, deep chains, several outputs.

`drawing.py` says how a graph grows, `blocks.py` what it is grown of; here are the forms that it may
have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dovetail import DataLayout, DType

from .blocks import BLOCKS, add, concat
from .drawing import Accepts, Drawing, RandomGraph, Style

DTYPES = (DType.FLOAT32, DType.INT8, DType.FLOAT16, DType.UINT8, DType.FLOAT64)
_CHANNELS = (8, 16, 32, 12, 3)
_UNARY = ("activation", "dense", "convolution", "depthwise", "add", "reshape", "permute", "pooling", "softmax")
_BATCHWISE = ("activation", "add", "binary", "dense", "convolution", "depthwise", "pooling", "softmax")


def single_layer(style: Style, block: str, accepts: Accepts, random: np.random.Generator) -> RandomGraph | None:
    """Return a network of one layer, or None if it is refused."""
    drawing = Drawing(style, accepts, random)
    drawing.add_input()
    return drawing.finished() if BLOCKS[block](drawing, drawing.slots[0]) else None


def large_chain(style: Style, accepts: Accepts, random: np.random.Generator, batch: int) -> RandomGraph:
    """Return a chain of large tensors, of which nobody asks what they are."""
    drawing = Drawing(replace(style, batch=batch), accepts, random, largest=4_000_000, valued=False)
    _deep(drawing)
    return drawing.finished()


def known_styles(accepts: Accepts) -> list[tuple[Style, tuple[str, ...]]]:
    """Return, for each element type and layout, the style in which most kinds are taken.

    The style in which a backend takes the most kinds of layer comes first.
    """
    found = []
    for dtype in DTYPES:
        for layout in (None, DataLayout.NHWC, DataLayout.NCHW):
            styles = [Style(dtype, layout, channels, batch) for batch in (2, 1) for channels in _CHANNELS]
            taken = [(style, _survey(style, accepts)) for style in styles]
            best = max(taken, key=lambda pair: len(pair[1]))
            if best[1]:
                found.append(best)
    return sorted(found, key=lambda pair: -len(pair[1]))


def _survey(style: Style, accepts: Accepts) -> tuple[str, ...]:
    """Return the names of the blocks that can be added to an input."""
    taken = []
    for name, block in BLOCKS.items():
        drawing = Drawing(style, accepts, np.random.default_rng(1))
        drawing.add_input()
        if block(drawing, drawing.slots[0]):
            taken.append(name)
    return tuple(taken)


def draw(style: Style, accepts: Accepts, random: np.random.Generator, *, form: str = "mixed") -> RandomGraph:
    """Draw a graph.

    Args:
        style: What its tensors are like.
        accepts: Says of a layer in a graph whether it may stay.
        random: Where chance comes from.
        form: "mixed"; "deep", a chain of 40 layers; "diamond", branches that part and join;
            "batchwise", layers that leave the first axis alone.
    """
    drawing = Drawing(style, accepts, random)
    _FORMS[form](drawing)
    return drawing.finished()


# -- forms -----------------------------------------------------------------------------------------


def _mixed(drawing: Drawing) -> None:
    """Grow whatever fits."""
    for _ in range(int(drawing.random.integers(1, 3))):
        drawing.add_input()
    for _ in range(int(drawing.random.integers(4, 20))):
        drawing.grow(BLOCKS)


def _batchwise(drawing: Drawing) -> None:
    """Grow layers that treat each row of the batch alike."""
    drawing.add_input()
    for _ in range(int(drawing.random.integers(3, 9))):
        drawing.grow({name: BLOCKS[name] for name in _BATCHWISE})


def _deep(drawing: Drawing) -> None:
    """Grow a chain."""
    drawing.add_input()
    for _ in range(40):
        drawing.grow({name: BLOCKS[name] for name in _UNARY}, latest=True)


def _diamond(drawing: Drawing) -> None:
    """Part, compute on both sides, join; three times."""
    drawing.add_input()
    for _ in range(3):
        start = drawing.slots[-1]
        ends = []
        for _ in range(2):
            drawing.slots.append(start)
            for _ in range(int(drawing.random.integers(1, 4))):
                drawing.grow({name: BLOCKS[name] for name in _UNARY}, latest=True)
            ends.append(drawing.slots[-1])
        if ends[0].shape != ends[1].shape:
            ends = [ends[1], ends[1]]
        drawing.slots += ends[:1]
        if not (add(drawing, ends[0], ends[1]) or concat(drawing, ends[0], ends[1])):
            drawing.slots.append(ends[1])


_FORMS: dict[str, Callable[[Drawing], None]] = {"mixed": _mixed, "batchwise": _batchwise, "deep": _deep, "diamond": _diamond}
