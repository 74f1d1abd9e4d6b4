"""What mutants are made of: ONNX's cases of every operator, small networks, the digits example."""

from __future__ import annotations

import functools
import hashlib
import random
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper

import dovetail_onnx  # noqa: F401  # fills the table of operators
from dovetail_onnx.registry import is_known

from .networks import networks

LARGEST = 60_000
"""Bytes of a model, and of what it is fed, at most.

A mutant of a large one takes as long as ten of a small one and shows no more."""
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"


@dataclass(frozen=True)
class Seed:
    """A model that is right, and values that it can be fed.

    Attributes:
        name: Where it is from.
        data: The model, serialized.
        feeds: Values by input; the others are drawn.
    """

    name: str
    data: bytes
    feeds: dict[str, np.ndarray] = field(default_factory=dict)

    def model(self) -> ModelProto:
        """Return the model, to be changed."""
        return ModelProto.FromString(self.data)


@dataclass(frozen=True)
class Seeds:
    """All seeds: single operators by type, and networks.

    They are grouped so that types with many cases are not drawn more often.
    """

    operators: dict[str, list[Seed]]
    networks: list[Seed]

    def draw(self, luck: random.Random) -> Seed:
        """Choose one."""
        if luck.random() < 0.25:
            return luck.choice(self.networks)
        return self.draw_operator(luck)

    def draw_operator(self, luck: random.Random) -> Seed:
        """Choose a model of a single operator, seldom of one that we do not have."""
        return luck.choice(self.operators[luck.choice(self.known if luck.random() < 0.95 else list(self.operators))])

    def all(self) -> list[Seed]:
        """List them."""
        return [*self.networks, *(seed for seeds in self.operators.values() for seed in seeds)]

    @functools.cached_property
    def known(self) -> list[str]:
        """Types of operators that the parser translates itself."""
        return [kind for kind in self.operators if is_known("", kind)]

    @functools.cached_property
    def digest(self) -> str:
        """Tell one set of seeds from another, such as that of another release of `onnx`."""
        return digest_of(self.all())


def digest_of(seeds: Iterable[Seed]) -> str:
    """Tell these seeds from others."""
    total = hashlib.sha256()
    for seed in seeds:
        total.update(seed.name.encode() + seed.data)
    return total.hexdigest()[:16]


@functools.cache
def load_seeds() -> Seeds:
    """Collect them; takes some seconds.

    Raises:
        RuntimeError: The onnx package does not carry its cases any more.
    """
    operators: dict[str, list[Seed]] = {}
    for kind, seed in _cases():
        operators.setdefault(kind, []).append(seed)
    if len(operators) < 140:
        raise RuntimeError(
            f"onnx {onnx.__version__} has cases of {len(operators)} operators only; without them there is no fuzzing"
        )
    made = [Seed(f"network: {name}", model.SerializeToString(deterministic=True)) for name, model in networks()]
    return Seeds(dict(sorted(operators.items())), [*made, Seed("digits", DIGITS.read_bytes())])


def _cases() -> Iterator[tuple[str, Seed]]:
    """Go through ONNX's cases of operators that the parser knows, or ONNX expands into such."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's opinion of how the cases make their numbers
        from onnx.backend.test import loader

        cases = [case for kind in ("node", "simple") for case in loader.load_model_tests(kind=kind)]
    for case in cases:
        model = case.model
        if model is None:
            model = onnx.load(Path(case.model_dir, "model.onnx"))
        feeds = _feeds(model, case.data_sets[0][0]) if case.data_sets else {}
        data = model.SerializeToString(deterministic=True)
        if len(data) + sum(value.nbytes for value in feeds.values()) <= LARGEST:
            yield model.graph.node[-1].op_type if model.graph.node else "", Seed(case.name, data, feeds)


def _feeds(model: ModelProto, values: list[Any]) -> dict[str, np.ndarray]:
    names = [entry.name for entry in model.graph.input]
    feeds = {}
    for name, value in zip(names, values, strict=False):
        if isinstance(value, onnx.TensorProto):
            value = numpy_helper.to_array(value)
        if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
            feeds[name] = np.asarray(value)
    return feeds
