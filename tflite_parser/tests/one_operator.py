"""Make a model of one operator, and run it on the reference backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tflite_making import Model

import dovetail
from dovetail_tflite import parse

Array: TypeAlias = "npt.NDArray[Any]"
Quantized: TypeAlias = "tuple[Any, ...] | None"


class Held:
    """A tensor of a model: a value, how its integers stand for numbers, and who gives it."""

    def __init__(self, value: npt.ArrayLike, quantization: Quantized = None, *, constant: bool = False) -> None:
        self.value: Array = np.asarray(value)
        self.quantization = quantization
        self.constant = constant


def constant(value: npt.ArrayLike, quantization: Quantized = None) -> Held:
    """Return a tensor that the model holds."""
    return Held(value, quantization, constant=True)


class Stated:
    """What a model says of a result."""

    def __init__(self, dtype: npt.DTypeLike, shape: Sequence[int], quantization: Quantized = None) -> None:
        self.dtype = np.dtype(dtype)
        self.shape = tuple(shape)
        self.quantization = quantization


def made(
    operator: str,
    inputs: Sequence[Held | npt.ArrayLike | None],
    results: Sequence[Stated],
    options: Mapping[str, Any] | None = None,
    *,
    version: int = 1,
) -> tuple[bytes, dict[str, Array]]:
    """Return a model of one operator and what to feed it."""
    model = Model()
    graph, feeds, numbers = model.main, {}, []
    for place, given in enumerate(inputs):
        if given is None:
            numbers.append(-1)
            continue
        held = given if isinstance(given, Held) else Held(given)
        name, value = f"in{place}", held.value
        if held.constant:
            numbers.append(graph.constant(name, value, quantization=held.quantization))
        else:
            numbers.append(graph.input(name, value.dtype, value.shape, quantization=held.quantization))
            feeds[name] = value
    stated = [
        graph.output(graph.tensor(f"out{place}", result.dtype, result.shape, quantization=result.quantization))
        for place, result in enumerate(results)
    ]
    graph.operator(operator, numbers, stated, None if options is None else dict(options), version=version)
    return model.build(), feeds


def run(*arguments: Any, **more: Any) -> list[Array]:
    """Make the model that `made` makes, and return its results."""
    data, feeds = made(*arguments, **more)
    with dovetail.load(parse(data), backends=["CpuRef"]) as network:
        return list(network.run(feeds).values())


def real(value: Array, quantization: tuple[Any, ...]) -> Array:
    """Return the numbers that integers stand for, in float64."""
    scale, zero = (np.asarray(one, np.float64) for one in quantization[:2])
    if len(quantization) > 2:
        shape = [1] * value.ndim
        shape[quantization[2]] = -1
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    found: Array = (value.astype(np.float64) - zero) * scale
    return found


def steps_apart(found: Array, expected: Array, quantization: tuple[Any, ...]) -> float:
    """Return how far integers are from the numbers that they should stand for, in steps."""
    limits = np.iinfo(found.dtype)
    places = np.clip(expected / quantization[0] + quantization[1], limits.min, limits.max)
    return float(np.abs(found - places).max())
