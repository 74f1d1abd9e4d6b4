"""Models of one operator with several results, constants or open sizes, and what they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tflite_making import Model, Tree

import dovetail
from dovetail.ground.records import NamedTuple
from dovetail_tflite import parse

Arrays = Sequence[np.ndarray[Any, Any]]


class Given(NamedTuple):
    """An input of an operator.

    Attributes:
        value: What it holds.
        constant: It lies in the file; else it is an input of the model.
        signature: Its sizes, -1 where they are open; None: those of the value.
        quantization: See `tflite_making`.
    """

    value: Any
    constant: bool = False
    signature: tuple[int, ...] | None = None
    quantization: tuple[Any, ...] | None = None


def constant(value: Any, dtype: Any = np.int32, quantization: tuple[Any, ...] | None = None) -> Given:
    """Return an input that lies in the file."""
    return Given(np.asarray(value, dtype), constant=True, quantization=quantization)


def one_operator(
    name: str,
    given: Sequence[Given],
    options: Tree | None = None,
    *,
    dtypes: Sequence[Any] = (np.float32,),
    quantizations: Sequence[tuple[Any, ...] | None] = (None,),
    version: int = 1,
) -> bytes:
    """Return a model of one operator.

    Args:
        name: The operator.
        given: Its inputs.
        options: Its options.
        dtypes: Of its results.
        quantizations: Of its results; the last counts for all that follow.
        version: Its version.
    """
    model = Model()
    graph = model.main
    numbers = []
    for index, one in enumerate(given):
        value = np.asarray(one.value)
        if one.constant:
            numbers.append(graph.constant(f"c{index}", value, quantization=one.quantization))
        else:
            numbers.append(
                graph.input(f"x{index}", value.dtype, value.shape, signature=one.signature, quantization=one.quantization)
            )
    results = [
        graph.output(graph.tensor(f"y{i}", dtype, (), quantization=quantizations[min(i, len(quantizations) - 1)]))
        for i, dtype in enumerate(dtypes)
    ]
    graph.operator(name, numbers, results, options, version=version)
    return model.build()


def results_of(file: bytes, inputs: Arrays) -> list[Any]:
    """Return what a model gives for its inputs."""
    with dovetail.load(parse(file), backends=["CpuRef"]) as net:
        names = [info.name for info in net.inputs]
        return list(net.run(dict(zip(names, inputs, strict=True))).values())


def computed(name: str, given: Sequence[Given], options: Tree | None = None, **arguments: Any) -> list[Any]:
    """Return what an operator gives."""
    inputs = [np.asarray(one.value) for one in given if not one.constant]
    return results_of(one_operator(name, given, options, **arguments), inputs)
