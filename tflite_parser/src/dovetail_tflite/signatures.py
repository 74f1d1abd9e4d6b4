"""Signatures: which subgraph to translate, and what users call its inputs and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dovetail import ErrorCode, ModelError
from dovetail.ground.records import NamedTuple

from .flatbuffer import Table
from .malformed import malformed
from .model_file import ModelFile

_MOST = 1024
"""Signatures of a file; each is a function of its own."""


class Entry(NamedTuple):
    """What is translated.

    Attributes:
        subgraph: Its number.
        inputs: Names of its inputs in their order; empty where their tensors keep theirs.
        outputs: Names of its outputs, the same way.
    """

    subgraph: int
    inputs: Sequence[str]
    outputs: Sequence[str]


def entry_of(file: ModelFile, key: str | None) -> Entry:
    """Return what a signature stands for.

    Args:
        file: The model.
        key: The signature; None for the first subgraph, under the names of its only signature.

    Raises:
        ModelError: There is no such signature, several have its key, or one contradicts the file.
    """
    tables = file.root.tables("signature_defs")
    if len(tables) > _MOST:
        raise malformed(f"{file.origin} has {len(tables)} signatures")
    found = [tables[index] for index in range(len(tables))]
    if key is not None:
        return _entry(file, _named(file, found, key))
    first = [signature for signature in found if signature.number("subgraph_index") == 0]
    return _entry(file, first[0]) if len(first) == 1 else Entry(0, (), ())


def _named(file: ModelFile, signatures: Sequence[Table], key: str) -> Table:
    keys = [signature.text("signature_key") for signature in signatures]
    if keys.count(key) > 1:
        raise malformed(f"{file.origin} has {keys.count(key)} signatures {key!r}")
    if key not in keys:
        known = f"its signatures are {', '.join(map(repr, keys))}" if keys else "it has none"
        message = f"{file.origin} has no signature {key!r}; {known}"
        raise ModelError(message, code=ErrorCode.MODEL_NOT_FOUND, hint="check the key, or leave it out for the first subgraph")
    return signatures[keys.index(key)]


def _entry(file: ModelFile, signature: Table) -> Entry:
    number = signature.number("subgraph_index")
    if number >= len(file.subgraphs):
        key = signature.text("signature_key")
        raise malformed(f"{file.origin} has signature {key!r} of subgraph {number} of {len(file.subgraphs)}")
    subgraph = file.subgraphs[number]
    return Entry(number, *(_names(signature, subgraph, end) for end in ("inputs", "outputs")))


def _names(signature: Table, subgraph: Table, end: str) -> Sequence[str]:
    """Return the names of one end, if each of its places has just one, and no two the same.

    Converters let two results that are equal be one tensor, which then has a name for each place.
    """
    maps = signature.tables(end)
    places = subgraph.numbers(end)
    if len(maps) != len(places):
        return ()
    left: dict[int, list[str]] = {}
    for index in reversed(range(len(maps))):
        left.setdefault(maps[index].number("tensor_index"), []).append(maps[index].text("name"))
    if Counter(places) != {number: len(names) for number, names in left.items()}:
        return ()
    names = [left[number].pop() for number in places]
    return names if all(names) and len(set(names)) == len(names) else ()
