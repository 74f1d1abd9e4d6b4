"""Declare the messages of a model file, as far as they are looked at.

Names and numbers are those of `onnx.proto`. Documentation and metadata of anything but the model,
training and the like are skipped where a file is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from .fields import (
    blob,
    blobs,
    contents,
    integer,
    integers,
    kept,
    message,
    messages,
    nested,
    note,
    real,
    reals,
    short_integer,
    short_integers,
    string,
    strings,
    unread,
    unsigned_integers,
)
from .wire import Message

_TYPES = ("tensor_type", "sequence_type", "map_type", "optional_type", "sparse_tensor_type", "opaque_type")
_SIZES = ("dim_value", "dim_param")


class StringStringEntryProto(Message):
    """A key and its value."""

    key: str = string(1)
    value: str = string(2)


class OperatorSetIdProto(Message):
    """The version of a domain's operators."""

    domain: str = string(1)
    version: int = integer(2)


class TensorProto(Message):
    """A tensor: its bytes, or its elements in the list of their type."""

    class DataType(IntEnum):
        """Element types."""

        UNDEFINED = 0
        FLOAT = 1
        UINT8 = 2
        INT8 = 3
        UINT16 = 4
        INT16 = 5
        INT32 = 6
        INT64 = 7
        STRING = 8
        BOOL = 9
        FLOAT16 = 10
        DOUBLE = 11
        UINT32 = 12
        UINT64 = 13
        COMPLEX64 = 14
        COMPLEX128 = 15
        BFLOAT16 = 16
        FLOAT8E4M3FN = 17
        FLOAT8E4M3FNUZ = 18
        FLOAT8E5M2 = 19
        FLOAT8E5M2FNUZ = 20
        UINT4 = 21
        INT4 = 22
        FLOAT4E2M1 = 23
        FLOAT8E8M0 = 24
        UINT2 = 25
        INT2 = 26
        FLOAT6E2M3 = 27
        FLOAT6E3M2 = 28

    EXTERNAL = 1
    """The data location of tensors in files of their own."""

    dims: Sequence[int] = integers(1)
    data_type: int = short_integer(2)
    segment: bytes = kept(3)
    float_data: Sequence[float] = reals(4)
    int32_data: Sequence[int] = short_integers(5)
    int64_data: Sequence[int] = integers(7)
    name: str = string(8)
    raw_data: bytes = contents(9)
    double_data: Sequence[float] = reals(10, "d")
    uint64_data: Sequence[int] = unsigned_integers(11)
    external_data: Sequence[StringStringEntryProto] = messages(13, StringStringEntryProto)
    data_location: int = short_integer(14)


class PropertyProto(Message):
    """A `StringStringEntryProto` of metadata, whose texts nothing depends on."""

    key: str = note(1)
    value: str = note(2)


class SparseTensorProto(Message):
    """A tensor of which those elements are stored that are not zero."""

    values: TensorProto = message(1, TensorProto)
    indices: TensorProto = message(2, TensorProto)
    dims: Sequence[int] = integers(3)


class TensorShapeProto(Message):
    """Sizes, each a number or a name."""

    class Dimension(Message):
        """One size."""

        dim_value: int = integer(1, group=_SIZES)
        dim_param: str = string(2, group=_SIZES)

    dim: Sequence[Dimension] = messages(1, Dimension)


class TypeProto(Message):
    """A type; those that are not tensors' are only noted."""

    class Tensor(Message):
        """Element type and shape."""

        elem_type: int = short_integer(1)
        shape: TensorShapeProto = message(2, TensorShapeProto)

    tensor_type: Tensor = message(1, Tensor, group=_TYPES)
    sequence_type: bytes = kept(4, group=_TYPES)
    map_type: bytes = kept(5, group=_TYPES)
    opaque_type: bytes = kept(7, group=_TYPES)
    sparse_tensor_type: bytes = kept(8, group=_TYPES)
    optional_type: bytes = kept(9, group=_TYPES)

    @property
    def kind(self) -> str | None:
        """Name of the field that is set, or None."""
        return next((name for name in _TYPES if self.has(name)), None)


class ValueInfoProto(Message):
    """Name and type of a tensor."""

    name: str = string(1)
    type: TypeProto = message(2, TypeProto)


class AttributeProto(Message, located=True):
    """An attribute of a node, or what it refers to in the call of the function around."""

    class AttributeType(IntEnum):
        """Which field holds the value."""

        UNDEFINED = 0
        FLOAT = 1
        INT = 2
        STRING = 3
        TENSOR = 4
        GRAPH = 5
        FLOATS = 6
        INTS = 7
        STRINGS = 8
        TENSORS = 9
        GRAPHS = 10
        SPARSE_TENSOR = 11
        SPARSE_TENSORS = 12
        TYPE_PROTO = 13
        TYPE_PROTOS = 14

    name: str = string(1)
    f: float = real(2)
    i: int = integer(3)
    s: bytes = blob(4)
    t: TensorProto = message(5, TensorProto)
    g: GraphProto = nested(6, "GraphProto")
    floats: Sequence[float] = reals(7)
    ints: Sequence[int] = integers(8)
    strings: Sequence[bytes] = blobs(9)
    type: int = short_integer(20)
    ref_attr_name: str = string(21)
    sparse_tensor: SparseTensorProto = message(22, SparseTensorProto)

    def described(self) -> str:
        """Name the type."""
        known = AttributeProto.AttributeType
        return known(self.type).name if self.type in known.__members__.values() else f"number {self.type}"


class NodeProto(Message, located=True):
    """A node: names of what it reads and writes, operator, attributes."""

    input: Sequence[str] = strings(1)
    output: Sequence[str] = strings(2)
    name: str = string(3)
    op_type: str = string(4)
    attribute: Sequence[AttributeProto] = messages(5, AttributeProto)
    domain: str = string(7)
    overload: str = string(8)


class GraphProto(Message):
    """Nodes, constants, and the ends of a graph."""

    node: Sequence[NodeProto] = messages(1, NodeProto, layers="a graph")
    name: str = string(2)
    initializer: Sequence[TensorProto] = messages(5, TensorProto)
    input: Sequence[ValueInfoProto] = messages(11, ValueInfoProto)
    output: Sequence[ValueInfoProto] = messages(12, ValueInfoProto)
    value_info: Sequence[ValueInfoProto] = unread(13, ValueInfoProto)
    sparse_initializer: Sequence[SparseTensorProto] = messages(15, SparseTensorProto)


class FunctionProto(Message):
    """An operator that is defined by nodes."""

    name: str = string(1)
    input: Sequence[str] = strings(4)
    output: Sequence[str] = strings(5)
    node: Sequence[NodeProto] = messages(7, NodeProto, layers="a function")
    opset_import: Sequence[OperatorSetIdProto] = messages(9, OperatorSetIdProto)
    domain: str = string(10)
    attribute_proto: Sequence[AttributeProto] = messages(11, AttributeProto)
    overload: str = string(13)


class ModelProto(Message):
    """What a file holds."""

    ir_version: int = integer(1)
    producer_name: str = note(2)
    producer_version: str = note(3)
    domain: str = note(4)
    model_version: int = integer(5)
    doc_string: str = note(6)
    graph: GraphProto = message(7, GraphProto)
    opset_import: Sequence[OperatorSetIdProto] = messages(8, OperatorSetIdProto)
    metadata_props: Sequence[bytes] = blobs(14)
    """Each a `PropertyProto`, not read with the model, which runs even where they are damaged."""
    functions: Sequence[FunctionProto] = messages(25, FunctionProto)
