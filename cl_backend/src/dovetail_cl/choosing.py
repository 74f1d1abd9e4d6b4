"""What can be computed in several ways, for `dovetail tune` to measure on the device at hand.

A family asks `Kernels.choose` wherever a rule may be wrong. Which answers there are is found by
having it make the work of a layer, up to its first kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar, cast

from dovetail import Choices, Layer, PrivateLayer, SubgraphView
from dovetail.graph.descriptor import Descriptor, descriptor_class

from .families import family_name, family_of
from .kernels import Answered, Asking, Kernels, Work

_MAX_WAYS = 24
"""Of a layer, in the level with all of them."""
_TUNED = ("convolution", "convolution.separable", "matrices", "fusion.fused")
"""Families that ask."""


@descriptor_class
class Chosen(PrivateLayer, kind="GpuAcc.Chosen"):
    """A layer that is computed otherwise than by the rules.

    Attributes:
        original: What it is.
        answers: To the questions of its family: names and numbers.
    """

    input_names: ClassVar[tuple[str, ...]] = ("inputs",)
    original: Descriptor
    answers: tuple[tuple[str, int], ...]

    def in_words(self) -> str:
        original = self.original
        own = original.in_words() if isinstance(original, PrivateLayer) else original.kind.rpartition(".")[-1]
        return f"{own}, {_name(dict(self.answers))}"


class _Original:
    """A layer that was chosen for, as it was."""

    def __init__(self, layer: Layer, descriptor: Descriptor) -> None:
        self._layer = layer
        self.descriptor, self.kind = descriptor, descriptor.kind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)


def choices_of(view: SubgraphView, facts: Mapping[str, Any], level: str, *, fast_math: bool) -> Choices:
    """Offer the ways to compute the layers of a part.

    Args:
        view: The part.
        facts: Of the device; see `list_devices`.
        level: How many ways: "rapid" offers one more for each question, "normal" all answers to one
            question at a time, "exhaustive" their combinations.
        fast_math: See `GpuAccOptions`.
    """
    answer = Choices(view)
    for layer in view.layers if level != "none" else ():
        if family_name(layer) in _TUNED and all(slot.source is not None for slot in layer.inputs):
            asking = Asking(facts, fast_math=fast_math)
            with suppress(Answered):
                family_of(layer).create(layer, asking)
            default = {question: answers[0] for question, answers in asking.questions.items()}
            others = {_name(one): _chosen(layer, one) for one in _ways(asking.questions, default, level)}
            if others:
                answer.offer(layer, _name(default), others)
    return answer


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a layer that was chosen for."""
    made = layer.descriptor
    assert isinstance(made, Chosen)
    original = cast(Layer, _Original(layer, made.original))
    work: Work = family_of(original).create(original, kernels.answering(dict(made.answers)))
    return work


def _ways(questions: Mapping[str, tuple[int, ...]], default: Mapping[str, int], level: str) -> Iterator[dict[str, int]]:
    """Yield the answers to all questions that differ from the default in some."""
    if level == "exhaustive":
        combined = (dict(zip(questions, one, strict=True)) for one in itertools.product(*questions.values()))
        yield from itertools.islice((one for one in combined if one != default), _MAX_WAYS)
        return
    for question, answers in questions.items():
        for answer in answers[1:2] if level == "rapid" else answers[1:]:
            yield {**default, question: answer}


def _name(answers: Mapping[str, int]) -> str:
    return ", ".join(f"{question} {answer}" for question, answer in answers.items())


def _chosen(layer: Layer, answers: Mapping[str, int]) -> Chosen:
    infos = tuple(slot.known_info for slot in layer.outputs)
    return Chosen(infos=infos, original=layer.descriptor, answers=tuple(answers.items()))
