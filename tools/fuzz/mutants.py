"""Mutant number k of a run: a model file and what it is fed, the same whenever it is made again."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from onnx import ModelProto

from . import byte_mutations, message_mutations, model_mutations, values
from .seeds import Seeds

LARGEST_INPUT = 1 << 22
"""Elements of an input that are made, at most.

A file may ask for any number, and it is the caller who then has to have them."""

LARGEST_RANK = 32
"""Of an input that is made: NumPy's random numbers stop there."""


@dataclass
class Mutant:
    """A file to load and what to run it with.

    Attributes:
        data: The file.
        feeds: Values for inputs of the same name, type and shape; all others are drawn.
        luck: What the drawing begins with.
        hostile: How likely a drawn or given input gets hostile values.
        made: What it was made of and how.
        suffix: Of the file's name, which tells the format.
    """

    data: bytes
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    luck: int = 0
    hostile: float = 0.0
    made: list[str] = field(default_factory=list)
    suffix: str = ".onnx"

    @property
    def is_value_fuzz(self) -> bool:
        """Whether the model is right, and only what it is fed is hostile."""
        return self.hostile == 1.0

    def draw(self, specs: Sequence[Any], turn: int) -> dict[str, np.ndarray] | None:
        """Return what is fed in one run; None if an input is too large to be made.

        Args:
            specs: Name, shape with sizes or symbols, and dtype of each input.
            turn: Which run; the first takes the given values, where they fit, and so does every run
                of a right model.
        """
        luck = random.Random(f"{self.luck}:{turn}")
        sizes: dict[str, int] = {}
        drawn = {}
        if turn == 0 or self.is_value_fuzz:
            for spec in specs:
                given = self.feeds.get(spec.name)
                if given is not None and len(spec.shape) == given.ndim:
                    sizes |= {s: n for s, n in zip(spec.shape, given.shape, strict=True) if isinstance(s, str)}
        for spec in sorted(specs, key=lambda spec: str(spec.name)):
            hostile = luck.random() < self.hostile
            for symbol in spec.shape:
                if isinstance(symbol, str) and symbol not in sizes:
                    sizes[symbol] = values.size(luck)
            shape = tuple(sizes[size] if isinstance(size, str) else size for size in spec.shape)
            dtype = np.dtype(spec.dtype.numpy)
            if math.prod(max(size, 1) for size in shape) > LARGEST_INPUT or len(shape) > LARGEST_RANK:
                return None
            given = self.feeds.get(spec.name)
            if given is not None and (turn == 0 or self.is_value_fuzz) and (given.shape, given.dtype) == (shape, dtype):
                drawn[spec.name] = values.poisoned(luck, given) if hostile and dtype.kind in "iuf" else given
            else:
                drawn[spec.name] = values.array(luck, shape, dtype, hostile)
        return drawn


def make(seeds: Seeds, seed: int, number: int) -> Mutant:
    """Make a mutant."""
    luck = random.Random(f"dovetail fuzz {seed}:{number}")
    first, second = seeds.draw(luck), seeds.draw(luck)
    way = luck.random()
    if way < 0.1:  # the model as it is: what is hostile is what it is fed
        return Mutant(first.data, dict(first.feeds), luck.getrandbits(32), 1.0, [first.name])
    changed = model_mutations.Changed(luck, first, seeds)
    hostile = luck.choice((0.0, 0.0, 0.3))
    made = [first.name]
    data = first.data
    if way < 0.9:
        for _ in range(luck.choice((1, 1, 1, 2, 2, 3, 5))):
            if luck.random() < 0.7:
                made.append(model_mutations.mutate(changed))
            else:
                made.append(message_mutations.mutate(luck, changed.model, second.model()))
        data = changed.model.SerializeToString(deterministic=True)
    if way > 0.84:
        data, done = byte_mutations.mutate(luck, data, second.data)
        made.append(done)
    return Mutant(data, changed.feeds, luck.getrandbits(32), hostile, made)


def as_model(mutant: Mutant) -> ModelProto | None:
    """Return what a mutant says, if it is a message of ONNX at all."""
    if mutant.suffix != ".onnx":
        return None
    try:
        return ModelProto.FromString(mutant.data)
    except (DecodeError, ValueError):
        return None
