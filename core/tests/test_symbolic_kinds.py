"""Compare shape inference of every kind with symbols in place of sizes to that with sizes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from fakes.layer_inputs import info

from dovetail.graph.expressions import Expression, UndecidedError, symbol
from dovetail.graph.tensor import TensorInfo

from .test_layers_shapes import CASES

VALUES_DECIDE = {"squeeze all", "gather nd", "gather nd batched"}
"""Cases of kinds whose rank depends on sizes."""
UNKNOWN = {"conditional", "slice", "resize scales"}
"""Cases with some unknown size.

Branches differ, a stride is negative, a scale is no fraction that floats hold.
"""


def named(given: TensorInfo, source: random.Random, sizes: dict[str, int], prefix: str, share: float) -> TensorInfo:
    """Replace some sizes by symbols, equal ones by the same if there is no prefix."""
    shape: list[Any] = []
    for axis, size in enumerate(given.sizes):
        if source.random() < share:
            shape.append(size)
            continue
        name = f"{prefix}{axis}" if prefix else f"s{size}"
        sizes[name] = size
        shape.append(symbol(name))
    return given._replace(shape=tuple(shape))


def evaluated(size: Any, sizes: Mapping[str, int]) -> Any:
    return size.evaluate(sizes) if isinstance(size, Expression) else size


def test_symbols_give_what_their_sizes_give() -> None:
    source = random.Random(1)
    undecided, unknown = set(), set()
    for name, (descriptor, given, _) in CASES.items():
        infos = [info(one) for one in given]
        concrete = descriptor.resolve(infos, [None] * len(infos)).infer(infos)
        for trial in range(30):
            sizes: dict[str, int] = {}
            share = 0.5 if trial else 0.0
            symbolic = [
                None if one is None else named(one, source, sizes, f"i{index}a" if trial % 2 else "", share)
                for index, one in enumerate(infos)
            ]
            try:
                found = descriptor.resolve(symbolic, [None] * len(symbolic)).infer(symbolic)
            except UndecidedError:
                undecided.add(name)
                continue
            for one, wanted in zip(found, concrete, strict=True):
                one.check()
                assert (one.dtype, one.rank, one.quantization) == (wanted.dtype, wanted.rank, wanted.quantization)
                for size, number in zip(one.shape, wanted.shape, strict=True):
                    if isinstance(size, Expression) and not size.is_known:
                        unknown.add(name)
                    else:
                        assert evaluated(size, sizes) == number, f"{name}: {symbolic} gives {one}, not {wanted}"
    assert undecided == VALUES_DECIDE
    assert unknown <= UNKNOWN
