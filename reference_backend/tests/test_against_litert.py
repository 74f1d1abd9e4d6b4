"""Quantized layers against the outputs of LiteRT's reference kernels, bit for bit.

`data/litert.npz` holds random layers and what LiteRT 2.3.0 made of them; `data/make_litert.py`
wrote it. The cases called "ties" place every sum next to a tie of the scaling, where single and
double rounding, their direction, and the precision of the scales can be told apart.
"""

from __future__ import annotations

import enum
import json
import math
import typing
from pathlib import Path

import numpy as np
import pytest

from dovetail import Quantization, layers

FILE = Path(__file__).with_name("data") / "litert.npz"


def load():
    """Return (name, facts, arrays) of each case; the last array is LiteRT's output."""
    with np.load(FILE, allow_pickle=False) as archive:
        facts, data = json.loads(archive["facts"].tobytes()), archive["bytes"].tobytes()
    found, at = [], 0
    for number, case in enumerate(facts):
        arrays = []
        for shape, tensor in zip(case["shapes"], [*case["inputs"], case["result"]], strict=True):
            dtype, count = np.dtype(tensor["dtype"]), math.prod(shape)
            arrays.append(np.frombuffer(data, dtype, count, at).reshape(shape))
            at += count * dtype.itemsize
        found.append(pytest.param(case, arrays, id=f"{case['name']}-{number}"))
    return found


def quantization_of(tensor):
    if not tensor["scales"]:
        return None
    if tensor["axis"] is None:
        return Quantization.per_tensor(tensor["scales"][0], tensor["zeros"][0])
    return Quantization.per_axis(tensor["scales"], tensor["zeros"], axis=tensor["axis"])


def descriptor_of(case):
    """The descriptor, with names made into enums and lists into tuples."""
    kind = getattr(layers, case["kind"])
    attributes = dict(case["attributes"])
    if kind is layers.Dequantize:
        attributes["quantization"] = quantization_of(case["inputs"][0])
    for name, value in attributes.items():
        hint = typing.get_type_hints(kind)[name]
        for option in typing.get_args(hint) or (hint,):
            if isinstance(option, type) and issubclass(option, enum.StrEnum):
                attributes[name] = option(value)
        if isinstance(value, list):
            attributes[name] = tuple(value)
    return kind(**attributes)


@pytest.mark.parametrize(("case", "arrays"), load())
def test_same_bits_as_litert(run_layer, case, arrays):
    descriptor, quantization = descriptor_of(case), quantization_of(case["result"])
    *inputs, wanted = arrays
    [got] = run_layer(
        lambda net, *slots: net.add(descriptor, *slots, quantization=quantization),
        *inputs,
        quantizations=[quantization_of(tensor) for tensor in case["inputs"]],
    )
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)
