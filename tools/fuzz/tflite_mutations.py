"""Mutations of .tflite files: of what a table says, of what a model means, and of offsets."""

from __future__ import annotations

import copy
import math
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from tflite_parser.tests.tflite_making import Tree, encoded

from dovetail_tflite.flatbuffer import BrokenFile
from dovetail_tflite.schema import OPERATORS, OPTIONS, TABLES
from dovetail_tflite.tensors import TYPES

from . import byte_mutations, values
from .mutants import Mutant
from .tflite_seeds import TfliteSeeds
from .tflite_trees import UNIONS, decoded, fields, tables

RANGES = {
    "bool": (0, 1), "i8": (-(1 << 7), (1 << 7) - 1), "u8": (0, (1 << 8) - 1), "u16": (0, (1 << 16) - 1),
    "i32": (-(1 << 31), (1 << 31) - 1), "u32": (0, (1 << 32) - 1), "i64": (-(1 << 63), (1 << 63) - 1),
    "u64": (0, (1 << 64) - 1),
}  # fmt: skip
USUAL = ("float32", "int8", "uint8", "int16", "int32", "int64", "bool", "float16")
LONGEST = 4000
"""Elements of a vector, at most."""
SUFFIX = ".tflite"


def make(seeds: TfliteSeeds, seed: int, number: int) -> Mutant:
    """Make mutant `number` of a run."""
    luck = random.Random(f"dovetail fuzz tflite {seed}:{number}")
    first, second = seeds.draw(luck), seeds.draw(luck)
    way = luck.random()
    made, data = [first.name], first.data
    if way < 0.05:  # the model as it is: what is hostile is what it is fed
        return Mutant(data, {}, luck.getrandbits(32), 1.0, made, SUFFIX)
    if way < 0.85:
        try:
            tree, other = decoded(first.data), decoded(second.data)
            for _ in range(luck.choice((1, 1, 1, 2, 2, 3, 5))):
                made.append(mutate(luck, tree, other))
            data = encoded(tree)
        except (BrokenFile, RecursionError):  # a seed that is not sound itself
            way = 1.0
    if way > 0.7:
        for _ in range(luck.choice((1, 1, 2))):
            if luck.random() < 0.6:
                data, done = _word(luck, data)
            else:
                data, done = byte_mutations.mutate(luck, data, second.data)
            made.append(done)
    return Mutant(data, {}, luck.getrandbits(32), luck.choice((0.0, 0.0, 0.3)), made, SUFFIX)


def mutate(luck: random.Random, tree: Tree, other: Tree) -> str:
    """Change a tree in place; returns what was done."""
    for _ in range(20):
        change = luck.choices(list(CHANGES), list(CHANGES.values()))[0]
        done = change(luck, tree, other)
        if done:
            return done
    return "nothing"


def _word(luck: random.Random, data: bytes) -> tuple[bytes, str]:
    """Change an offset, a length or a place in a vtable: to near it, far off, or another's."""
    changed = bytearray(data.ljust(8, b"\0"))
    form, size = luck.choice((("<I", 4), ("<I", 4), ("<i", 4), ("<H", 2)))
    low, high = RANGES[{"<I": "u32", "<i": "i32", "<H": "u16"}[form]]
    at = luck.randrange(len(changed) // size) * size
    (value,) = struct.unpack_from(form, changed, at)
    drawn = luck.choice(
        (
            value + luck.choice((-4, -2, -1, 1, 2, 4, 8)),
            value * 2,
            values.integer(luck),
            len(changed) - at,
            luck.randrange(len(changed)),
            struct.unpack_from(form, changed, luck.randrange(len(changed) // size) * size)[0],
        )
    )
    struct.pack_into(form, changed, at, min(max(drawn, low), high))
    return bytes(changed), "word"


# -- what tables say -------------------------------------------------------------------------------


def _field(luck: random.Random, tree: Tree, other: Tree) -> str:
    """Change a field of any table, each kind of table as often as any other, rather a set one."""
    by_kind: dict[str, list[Tree]] = {}
    for name, table in tables(tree):
        by_kind.setdefault(name, []).append(table)
    name = luck.choice(sorted(by_kind))
    table = luck.choice(by_kind[name])
    known = fields(name)
    present = [field for field in known if field in table]
    field = luck.choice(present if present and luck.random() < 0.8 else sorted(known))
    if field in table and luck.random() < 0.1:
        del table[field]
        return f"clear {name}.{field}"
    value = _changed(luck, name, field, known[field], table, tree, other)
    if value is None:
        return ""
    table[field] = value
    return f"set {name}.{field}"


def _changed(luck: random.Random, name: str, field: str, kind: str, table: Tree, tree: Tree, other: Tree) -> Any:
    """Return another value of a field; None if there is none."""
    old = table.get(field)
    if kind in RANGES or kind == "f32":
        return _number(luck, kind, old)
    if kind == "string":
        names = [
            found[key] for of, found in tables(tree) for key, what in fields(of).items() if what == "string" and key in found
        ]
        return luck.choice([*values.TEXTS, *names, b"\xff\xfe\xed", "n" * 9000])
    if kind == "union":
        return _union(luck, field, table, other)
    if kind == "[u8]":
        return _bytes(luck, old or b"")
    if kind in TABLES:
        return luck.choice([found for of, found in (*tables(tree), *tables(other)) if of == kind] or [None])
    entries = list(old or [])
    of = kind[1:-1]
    donors = [found for what, found in (*tables(tree), *tables(other)) if what == of] if of in TABLES else []
    if of in TABLES and not donors:
        return None
    drawn = luck.choice(donors) if of in TABLES else _number(luck, of, luck.choice(entries) if entries else None)
    place = luck.randrange(len(entries)) if entries else 0
    what = luck.choice(("change", "change", "change", "add", "delete", "swap", "double", "many", "clear"))
    if what == "change" and entries:
        entries[place] = drawn
    elif what == "delete" and entries:
        del entries[place]
    elif what == "swap" and entries:
        again = luck.randrange(len(entries))
        entries[place], entries[again] = entries[again], entries[place]
    elif what == "double" and entries:
        entries.insert(place, entries[luck.randrange(len(entries))])
    elif what == "many":
        entries += [drawn] * luck.choice((2, 5, 40, 1000))
    elif what == "clear":
        entries = []
    else:
        entries.insert(place, drawn)
    return entries[:LONGEST]


def _number(luck: random.Random, kind: str, old: Any) -> Any:
    if kind == "f32":
        drawn = values.number(luck)
        return drawn if not math.isfinite(drawn) else float(np.float32(drawn))
    low, high = RANGES[kind]
    drawn = old + luck.choice((-2, -1, 1, 2)) if isinstance(old, int) and luck.random() < 0.5 else values.integer(luck)
    return min(max(int(drawn), low), high)


def _union(luck: random.Random, field: str, table: Tree, other: Tree) -> Any:
    """Return a table of the union, from another model or empty; the number mostly says which."""
    known = UNIONS[field]
    number = luck.choice(sorted(known))
    held = [found[field] for _, found in tables(other) if found.get(field)]
    value = luck.choice([*held, (known[number], {})])
    if luck.random() < 0.8:
        table["details_type" if field == "details" else f"{field}_type"] = number
    return value


def _bytes(luck: random.Random, old: bytes) -> bytes:
    changed = bytearray(old)
    what = luck.randrange(5)
    if what == 0:
        return old[: luck.randrange(len(old) + 1)]
    if what == 1:
        return old + luck.randbytes(luck.choice((1, 4, 8, 100)))
    if what == 2:
        return luck.randbytes(min(len(old), LONGEST) or 4)
    if what == 3:
        return b"\xff" * (min(len(old), LONGEST) or 8)
    for _ in range(luck.randint(1, 4) if old else 0):
        changed[luck.randrange(len(changed))] = luck.randrange(256)
    return bytes(changed)


# -- what a model means ----------------------------------------------------------------------------


def _graph(luck: random.Random, tree: Tree) -> Tree | None:
    graphs = tree.get("subgraphs") or []
    return (graphs[0] if luck.random() < 0.7 else luck.choice(graphs)) if graphs else None


def _of_operator(change: Callable[[random.Random, Tree, Tree, Tree, Tree], bool]) -> Callable[[random.Random, Tree, Tree], str]:
    """Change an operator that is drawn, where there is one: its graph, the model and another."""

    def applied(luck: random.Random, tree: Tree, other: Tree) -> str:
        graph = _graph(luck, tree)
        operators = graph.get("operators") if graph else None
        if not graph or not operators:
            return ""
        return change.__name__.lstrip("_") if change(luck, luck.choice(operators), graph, tree, other) else ""

    applied.__name__ = change.__name__
    return applied


@_of_operator
def _other_operator(luck: random.Random, operator: Tree, graph: Tree, tree: Tree, other: Tree) -> bool:
    """Let an operator be another, with its options or another's."""
    code = luck.randrange(len(OPERATORS))
    codes = tree.setdefault("operator_codes", [])
    codes.append({"deprecated_builtin_code": min(code, 127), "builtin_code": code, "version": luck.choice((1, 1, 2, 5, 99))})
    operator["opcode_index"] = len(codes) - 1
    return True


@_of_operator
def _options(luck: random.Random, operator: Tree, graph: Tree, tree: Tree, other: Tree) -> bool:
    """Set an option, also one that was left out."""
    held = operator.get("builtin_options")
    known = fields(held[0]) if held else {}
    numbers = [name for name, kind in known.items() if kind in RANGES or kind == "f32"]
    if not held or not numbers:
        return False
    name = luck.choice(numbers)
    held[1][name] = _number(luck, known[name], held[1].get(name, 1))
    return True


@_of_operator
def _more_options(luck: random.Random, operator: Tree, graph: Tree, tree: Tree, other: Tree) -> bool:
    """Give an operator options that it may not have."""
    number = luck.choice(sorted(OPTIONS))
    operator |= {"builtin_options_type": number, "builtin_options": (OPTIONS[number], {})}
    return True


@_of_operator
def _rewire(luck: random.Random, operator: Tree, graph: Tree, tree: Tree, other: Tree) -> bool:
    """Let an operator read or write another tensor, fewer or more."""
    numbers = operator.setdefault(luck.choice(("inputs", "inputs", "outputs")), [])
    drawn = luck.choice((-1, luck.randrange(len(graph.get("tensors") or [0]) + 1)))
    if numbers and luck.random() < 0.7:
        numbers[luck.randrange(len(numbers))] = drawn
    else:
        numbers.insert(luck.randrange(len(numbers) + 1), drawn)
    return True


def _of_tensor(change: Callable[[random.Random, Tree, Tree, Tree], bool]) -> Callable[[random.Random, Tree, Tree], str]:
    """Change a tensor that is drawn, where there is one: its graph and the model."""

    def applied(luck: random.Random, tree: Tree, other: Tree) -> str:
        graph = _graph(luck, tree)
        tensors = graph.get("tensors") if graph else None
        if not graph or not tensors:
            return ""
        return change.__name__.lstrip("_") if change(luck, luck.choice(tensors), graph, tree) else ""

    applied.__name__ = change.__name__
    return applied


@_of_tensor
def _shape(luck: random.Random, tensor: Tree, graph: Tree, tree: Tree) -> bool:
    """Give a tensor other sizes, more or fewer axes, or leave some open."""
    shape = list(tensor.get("shape") or [])
    what = luck.randrange(5)
    if what == 0 and shape:
        tensor["shape_signature"] = [-1 if luck.random() < 0.5 else size for size in shape]
        return True
    if what == 1:
        shape.insert(luck.randrange(len(shape) + 1), luck.choice((0, 1, 1, 2)))
    elif what == 2 and shape:
        del shape[luck.randrange(len(shape))]
    elif shape:
        shape[luck.randrange(len(shape))] = min(max(values.integer(luck), -(1 << 31)), (1 << 31) - 1)
    tensor["shape"] = shape
    return True


@_of_tensor
def _type(luck: random.Random, tensor: Tree, graph: Tree, tree: Tree) -> bool:
    """Give a tensor another type, or all tensors of the same type."""
    old = tensor.get("type", 0)
    drawn = TYPES.index(luck.choice(USUAL)) if luck.random() < 0.9 else luck.randrange(len(TYPES) + 1)
    everywhere = luck.random() < 0.6
    for one in graph["tensors"]:
        if one is tensor or (everywhere and one.get("type", 0) == old):
            one["type"] = drawn
    return True


@_of_tensor
def _quantization(luck: random.Random, tensor: Tree, graph: Tree, tree: Tree) -> bool:
    """Quantize a tensor, with right and wrong scales, and mostly as bytes."""
    scale = luck.choice((0.02, 0.1, 1.0, 1e-30, 0.0, -0.1, 1e30, float("nan"), float("inf")))
    axis = luck.choice((0, 0, 1, 3, -1))
    size = (tensor.get("shape") or [1])[0]
    count = luck.choice((1, 1, min(max(size, 0), 100), 2))
    zero = luck.choice((0, 0, 1, 100, 127, -128, 1000, 1 << 40))
    tensor["quantization"] = {
        "scale": [scale] * count,
        "zero_point": [zero] * luck.choice((count, 1)),
        "quantized_dimension": axis,
    }
    if luck.random() < 0.7:
        tensor["type"] = TYPES.index(luck.choice(("int8", "uint8", "int16", "int32")))
    return True


@_of_tensor
def _bake(luck: random.Random, tensor: Tree, graph: Tree, tree: Tree) -> bool:
    """Make a constant of a tensor."""
    count = math.prod(tensor.get("shape") or [])
    if not 0 < count < LONGEST:
        return False
    tree.setdefault("buffers", [{}]).append({"data": luck.choice((luck.randbytes(count * 4), bytes(count * 4)))})
    tensor["buffer"] = len(tree["buffers"]) - 1
    numbers = graph.get("inputs") or []
    graph["inputs"] = [number for number in numbers if graph["tensors"][number : number + 1] != [tensor]]
    return True


@_of_tensor
def _unbake(luck: random.Random, tensor: Tree, graph: Tree, tree: Tree) -> bool:
    """Make an input of a tensor, constant or not."""
    tensor["buffer"] = 0
    graph.setdefault("inputs", []).append(next(at for at, one in enumerate(graph["tensors"]) if one is tensor))
    return True


@_of_tensor
def _other_buffer(luck: random.Random, tensor: Tree, graph: Tree, tree: Tree) -> bool:
    """Let a tensor have the value of another, or a variable."""
    tensor["buffer"] = luck.randrange(len(tree.get("buffers") or [{}]) + 1)
    tensor["is_variable"] = luck.random() < 0.2
    return True


def _output(luck: random.Random, tree: Tree, other: Tree) -> str:
    """Ask for a tensor in between, which may be an input, a constant or an output already."""
    graph = _graph(luck, tree)
    if not graph or not graph.get("tensors"):
        return ""
    graph.setdefault("outputs", []).append(luck.randrange(len(graph["tensors"])))
    return "output"


def _donate(luck: random.Random, tree: Tree, other: Tree) -> str:
    """Take the main graph of another model in, as a subgraph or behind this one's operators."""
    graph, donors = _graph(luck, tree), other.get("subgraphs") or []
    if not graph or not donors or len(graph.get("operators") or []) > 60:
        return ""
    donor = copy.deepcopy(luck.choice(donors))  # it may be this graph: it was taken before
    if luck.random() < 0.3:
        tree["subgraphs"].append(donor)
        return "another subgraph"
    codes, buffers = (tree.setdefault(name, []) for name in ("operator_codes", "buffers"))
    tensors = graph.setdefault("tensors", [])
    first, first_code, first_buffer = len(tensors), len(codes), len(buffers)
    codes += other.get("operator_codes") or []
    buffers += other.get("buffers") or []
    for one in donor.get("tensors") or []:
        tensors.append(one | {"buffer": _up(one["buffer"], first_buffer)} if one.get("buffer") else one)
    read = {number: luck.randrange(first) if first else 0 for number in (donor.get("inputs") or [])[:1]}
    for operator in donor.get("operators") or []:
        moved = {
            end: [read.get(number, _up(number, first)) for number in operator.get(end) or []] for end in ("inputs", "outputs")
        }
        graph.setdefault("operators", []).append(
            operator | moved | {"opcode_index": _up(operator.get("opcode_index", 0), first_code)}
        )
    graph.setdefault("inputs", []).extend(_up(number, first) for number in (donor.get("inputs") or [])[1:])
    graph.setdefault("outputs", []).extend(_up(number, first) for number in donor.get("outputs") or [])
    return "chain"


def _up(number: int, by: int) -> int:
    """Return the number that an entry has behind `by` others; -1 stands for none."""
    return min(number + by, RANGES["i32"][1]) if number >= 0 else number


def _shuffle(luck: random.Random, tree: Tree, other: Tree) -> str:
    """Order operators or tensors otherwise, or leave some out."""
    graph = _graph(luck, tree)
    entries = (graph or {}).get(luck.choice(("operators", "operators", "tensors", "inputs", "outputs"))) or []
    if len(entries) < 2:
        return ""
    luck.shuffle(entries)
    if luck.random() < 0.3:
        entries.pop()
    return "shuffle"


CHANGES: dict[Callable[[random.Random, Tree, Tree], str], int] = {
    _field: 30, _other_operator: 6, _options: 8, _more_options: 2, _rewire: 4, _shape: 8, _type: 6, _quantization: 6, _bake: 6,
    _unbake: 4, _other_buffer: 3, _output: 3, _donate: 6, _shuffle: 1,
}  # fmt: skip
"""How often each is drawn."""
