"""Make .tflite files: models operator by operator, or any tree of tables, sound or not.

`Model` knows what TensorFlow Lite means by its tables, `encoded` only knows their fields. Neither
checks anything: files that contradict themselves are wanted too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import flatbuffers
import numpy as np
import numpy.typing as npt
from flatbuffers import number_types

from dovetail_tflite.schema import IDENTIFIER, OPERATORS, OPTIONS, OPTIONS_2, TABLES, VERSION
from dovetail_tflite.tensors import TYPES

Tree: TypeAlias = "dict[str, Any]"
"""Fields of a table by name: numbers, strings, bytes, lists, arrays, further trees.

A union is a pair of the name of its table and a tree. A tree or list that stands in several places
is written once, and all of these lead to it.
"""

_NUMBERS = {
    "bool": number_types.BoolFlags, "i8": number_types.Int8Flags, "u8": number_types.Uint8Flags,
    "u16": number_types.Uint16Flags, "i32": number_types.Int32Flags, "u32": number_types.Uint32Flags,
    "i64": number_types.Int64Flags, "u64": number_types.Uint64Flags, "f32": number_types.Float32Flags,
}  # fmt: skip
_BITS = {"int4": 4, "int2": 2, "uint4": 4}
_ALIGNED = 16
_CUSTOM = "custom:"
_OLD_CODES = 127
"""Largest code of an operator that fits the field of old readers."""
_TABLE_OF = {
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), "Pool2DOptions"),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL"), "ReducerOptions"),
    **dict.fromkeys(("RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "MULTINOMIAL"), "RandomOptions"),
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
}
"""Tables of options that are not named after their operators."""


def options_of(operator: str) -> tuple[str, int, str]:
    """Return the table of an operator's options, its number in the union, and the union's field."""
    names = {table.lower(): table for table in TABLES}
    table = _TABLE_OF.get(operator) or names[operator.replace("_", "").lower() + "options"]
    for field, union in (("builtin_options", OPTIONS), ("builtin_options2", OPTIONS_2)):
        for number, name in union.items():
            if name == table:
                return table, number, field
    raise KeyError(operator)


class Subgraph:
    """A subgraph under construction; tensors are their numbers."""

    def __init__(self, model: Model, name: str) -> None:
        self.tree: Tree = {"tensors": [], "inputs": [], "outputs": [], "operators": [], "name": name}
        self._model = model

    def tensor(
        self,
        name: str,
        dtype: npt.DTypeLike | int,
        shape: Sequence[int],
        *,
        value: npt.ArrayLike | bytes | None = None,
        signature: Sequence[int] | None = None,
        quantization: tuple[Any, ...] | Tree | None = None,
        **fields: Any,
    ) -> int:
        """Add a tensor.

        Args:
            name: Its name.
            dtype: Of NumPy, or a name or code of the schema.
            shape: Its sizes.
            value: What it holds, if it is a constant; bytes go in as they are.
            signature: `shape_signature`, -1 for open sizes.
            quantization: (scale, zero point), or (scales, zero points, axis), or the fields of the
                table.
            fields: Further fields of its table.
        """
        kind = _type_name(dtype)
        tree: Tree = {"shape": list(shape), "type": dtype if isinstance(dtype, int) else TYPES.index(kind), "name": name}
        if value is not None:
            tree["buffer"] = self._model.buffer(value if isinstance(value, bytes) else _stored(value, kind))
        if signature is not None:
            tree["shape_signature"] = list(signature)
        if quantization is not None:
            tree["quantization"] = quantization if isinstance(quantization, dict) else _quantized(*quantization)
        self.tree["tensors"].append(tree | fields)
        return len(self.tree["tensors"]) - 1

    def input(self, name: str, dtype: npt.DTypeLike | int, shape: Sequence[int], **arguments: Any) -> int:
        """Add a tensor that is an input of the subgraph."""
        number = self.tensor(name, dtype, shape, **arguments)
        self.tree["inputs"].append(number)
        return number

    def constant(self, name: str, value: npt.ArrayLike, **arguments: Any) -> int:
        """Add a tensor with a value, of the type and shape of the value."""
        held = np.asarray(value)
        return self.tensor(name, held.dtype, held.shape, value=held, **arguments)

    def output(self, number: int) -> int:
        """Make a tensor an output of the subgraph."""
        self.tree["outputs"].append(number)
        return number

    def operator(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: Tree | None = None,
        *,
        version: int = 1,
        **fields: Any,
    ) -> None:
        """Add an operator.

        Args:
            name: Of the schema, or `custom:NAME`.
            inputs: Tensors, -1 for one left out.
            outputs: Tensors.
            options: Fields of its table of options; no table if it is None.
            version: Its version.
            fields: Further fields of its table, such as `custom_options`.
        """
        code = self._model.code(name, version)
        tree: Tree = {"opcode_index": code, "inputs": list(inputs), "outputs": list(outputs)}
        if options is not None:
            table, number, field = options_of(name)
            tree |= {f"{field}_type": number, field: (table, options)}
        self.tree["operators"].append(tree | fields)


class Model:
    """A model under construction; `main` is its first subgraph, `tree` all that will be written."""

    def __init__(self, name: str = "main") -> None:
        self.tree: Tree = {
            "version": VERSION, "operator_codes": [], "subgraphs": [], "description": "made by a test", "buffers": [{}],
        }  # fmt: skip
        self._codes: dict[tuple[str, int], int] = {}
        self.main = self.subgraph(name)

    def subgraph(self, name: str = "") -> Subgraph:
        """Add a subgraph."""
        made = Subgraph(self, name)
        self.tree["subgraphs"].append(made.tree)
        return made

    def buffer(self, data: bytes) -> int:
        """Add bytes that a tensor or metadata refer to."""
        self.tree["buffers"].append({"data": data})
        return len(self.tree["buffers"]) - 1

    def code(self, name: str, version: int) -> int:
        """Return the entry of the table of operators for a version of one, and add it at need."""
        found = self._codes.get((name, version))
        if found is not None:
            return found
        custom = name.startswith(_CUSTOM)
        code = OPERATORS.index("CUSTOM" if custom else name)
        tree: Tree = {"deprecated_builtin_code": min(code, _OLD_CODES), "builtin_code": code, "version": version}
        if custom:
            tree["custom_code"] = name.removeprefix(_CUSTOM)
        self.tree["operator_codes"].append(tree)
        self._codes[name, version] = len(self._codes)
        return self._codes[name, version]

    def metadata(self, name: str, data: bytes) -> None:
        """Add metadata."""
        self.tree.setdefault("metadata", []).append({"name": name, "buffer": self.buffer(data)})

    def signature(self, key: str, inputs: Mapping[str, int], outputs: Mapping[str, int], subgraph: int = 0) -> None:
        """Give tensors the names of a signature."""
        ends = [[{"name": name, "tensor_index": number} for name, number in end.items()] for end in (inputs, outputs)]
        made = {"inputs": ends[0], "outputs": ends[1], "signature_key": key, "subgraph_index": subgraph}
        self.tree.setdefault("signature_defs", []).append(made)

    def build(self) -> bytes:
        """Return the file."""
        return encoded(self.tree)

    def build_with_buffers_behind(self) -> bytes:
        """Return the file in the form of those above 2 GiB: buffers lie behind the FlatBuffer."""
        held = [buffer.get("data", b"") for buffer in self.tree["buffers"]]
        begin = _up(len(self._placed(held, 1)))
        return self._placed(held, begin).ljust(begin, b"\0") + b"".join(data.ljust(_up(len(data)), b"\0") for data in held)

    def _placed(self, held: Sequence[bytes], at: int) -> bytes:
        """Return the FlatBuffer alone, for buffers that begin at `at`."""
        buffers: list[Tree] = []
        for data in held:
            buffers.append({"offset": at, "size": len(data)} if data else {})
            at += _up(len(data))
        return encoded(self.tree | {"buffers": buffers})


def encoded(tree: Tree, table: str = "Model", identifier: bytes = IDENTIFIER) -> bytes:
    """Return the FlatBuffer of a tree; what it lacks is left out, what it has is written."""
    writer = _Writer()
    writer.builder.Finish(writer.table(table, tree), identifier)
    return bytes(writer.builder.Output())


class _Writer:
    """Writes trees, each once."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1024)
        self._written: dict[int, tuple[Any, int]] = {}
        """What was written and where, by address; it is kept: the address stays its own."""

    def table(self, name: str, tree: Tree) -> int:
        return self._once(tree, lambda: self._table(name, tree))

    def _once(self, value: Any, write: Callable[[], int]) -> int:
        if id(value) not in self._written:
            self._written[id(value)] = (value, write())
        return self._written[id(value)][1]

    def _table(self, name: str, tree: Tree) -> int:
        fields = [text.partition("=")[0].partition(":")[::2] for text in TABLES[name].split()]
        unknown = set(tree) - {field for field, _ in fields}
        assert not unknown, f"{name} has no {unknown}"
        held = {
            field: tree[field] if kind in _NUMBERS else self._value(kind, tree[field])
            for field, kind in fields
            if tree.get(field) is not None
        }
        self.builder.StartObject(len(fields))
        for place, (field, kind) in enumerate(fields):
            if field not in held:
                continue
            if kind in _NUMBERS:
                self.builder.Prepend(_NUMBERS[kind], held[field])
            else:
                self.builder.PrependUOffsetTRelative(held[field])
            self.builder.Slot(place)
        return int(self.builder.EndObject())

    def _value(self, kind: str, value: Any) -> int:
        """Write what a field leads to; returns where."""
        if kind == "string":
            return int(self.builder.CreateString(value))
        if kind == "union":
            return self.table(*value)
        if not kind.startswith("["):
            return self.table(kind, value)
        of = kind[1:-1]
        if isinstance(value, bytes):
            return self._once(value, lambda: self._bytes(value))
        if of in TABLES:
            return self._once(value, lambda: self._vector(number_types.UOffsetTFlags, [self.table(of, one) for one in value]))
        return self._once(value, lambda: self._vector(_NUMBERS[of], value))

    def _vector(self, flags: Any, values: Sequence[Any]) -> int:
        is_offset = flags is number_types.UOffsetTFlags
        self.builder.StartVector(flags.bytewidth, len(values), flags.bytewidth)
        for value in reversed(values):
            if is_offset:
                self.builder.PrependUOffsetTRelative(value)
            else:
                self.builder.Prepend(flags, value)
        return int(self.builder.EndVector())

    def _bytes(self, data: bytes) -> int:
        self.builder.StartVector(1, len(data), _ALIGNED)
        self.builder.head -= len(data)
        self.builder.Bytes[self.builder.head : self.builder.head + len(data)] = data
        return int(self.builder.EndVector())


def _up(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _type_name(dtype: npt.DTypeLike | int) -> str:
    if isinstance(dtype, int):
        return TYPES[dtype] if 0 <= dtype < len(TYPES) else ""
    return dtype if isinstance(dtype, str) and dtype in TYPES else np.dtype(dtype).name


def _stored(value: npt.ArrayLike, kind: str) -> bytes:
    """Return the bytes of a constant; the first of several in a byte is in its lowest bits."""
    bits = _BITS.get(kind)
    if bits is None:
        return np.ascontiguousarray(np.asarray(value)).tobytes()
    numbers = [int(one) % (1 << bits) for one in np.asarray(value).reshape(-1)]
    data = bytearray(math.ceil(len(numbers) * bits / 8))
    for place, number in enumerate(numbers):
        data[place * bits // 8] |= number << place * bits % 8
    return bytes(data)


def _quantized(scale: Any, zero_point: Any = 0, axis: int | None = None) -> Tree:
    found: Tree = {"scale": np.atleast_1d(scale).tolist(), "zero_point": np.atleast_1d(zero_point).tolist()}
    return found if axis is None else found | {"quantized_dimension": axis}
