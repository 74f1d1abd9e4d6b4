"""Make a failing mutant smaller while it shows the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from google.protobuf.message import Message

from .message_mutations import messages
from .mutants import Mutant, as_model

Shows = Callable[[Mutant], bool]


def minimize(mutant: Mutant, shows: Shows, seconds: float = 60.0) -> Mutant:
    """Return a mutant that `shows` still holds for, shrunk by greedy removal in the given time."""
    deadline = time.monotonic() + seconds
    model = as_model(mutant)
    if model is not None:
        rewritten = replace(mutant, data=model.SerializeToString(deterministic=True))
        if shows(rewritten):
            return _fields_removed(rewritten, model, shows, deadline)
    return _bytes_removed(mutant, shows, deadline)


def _fields_removed(mutant: Mutant, model: Message, shows: Shows, deadline: float) -> Mutant:
    smaller = True
    while smaller:
        smaller = False
        for size in (8, 1):
            place = 0
            while place < len(list(_removals(model, size))):
                if time.monotonic() > deadline:
                    return mutant
                candidate = type(model)()
                candidate.CopyFrom(model)
                list(_removals(candidate, size))[place]()
                trial = replace(mutant, data=candidate.SerializeToString(deterministic=True))
                if len(trial.data) < len(mutant.data) and shows(trial):
                    model, mutant, smaller = candidate, trial, True
                else:
                    place += 1
    return mutant


def _removals(model: Message, size: int) -> Iterator[Callable[[], None]]:
    """List ways to shrink a model: without `size` neighbours of a repeated field, or a field."""
    for message in messages(model):
        for field, value in message.ListFields():
            if not field.is_repeated:
                if size == 1:
                    yield lambda message=message, field=field: message.ClearField(field.name)
                continue
            for begin in range(0, min(len(value), 400), size):
                if size == 1 or begin + size <= len(value):
                    yield lambda value=value, begin=begin: value.__delitem__(slice(begin, begin + size))


def _bytes_removed(mutant: Mutant, shows: Shows, deadline: float) -> Mutant:
    size = max(1, len(mutant.data) // 2)
    while size:
        begin = 0
        while begin < len(mutant.data):
            if time.monotonic() > deadline:
                return mutant
            trial = replace(mutant, data=mutant.data[:begin] + mutant.data[begin + size :])
            if shows(trial):
                mutant = trial
            else:
                begin += size
        size //= 2
    return mutant
