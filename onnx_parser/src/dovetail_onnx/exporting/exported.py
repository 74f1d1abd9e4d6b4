"""What an export made: a model as bytes, or as files if it is too large for that."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from dovetail.graph.element_types import DType
from dovetail.graph.tensor import TensorInfo
from dovetail.ground.errors import ErrorCode, ModelError
from dovetail.ground.pieces import in_order
from dovetail.ground.records import NamedTuple

from ..tensors import CODES

OPSET = 21
"""Operator set of exported models: the first to scale group normalization per channel."""
_IR_VERSION = 10
"""The first that has this operator set."""
_MAX_BYTES = (1 << 31) - 1
"""Protobuf's limit for one message."""
_MAX_INLINE = 1 << 10
"""Bytes of the largest constant kept in the model file when the others get their own file."""
_ALIGNMENT = 1 << 12
"""Offsets of constants in that file: runtimes map them by pages."""


class Value(NamedTuple):
    """A constant of the model: an array in NumPy's storage, and its element type."""

    array: npt.NDArray[Any]
    dtype: DType


class NodeOf(NamedTuple):
    """A node of the model."""

    operator: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class ExportedModel:
    """A part of a network in ONNX. Constants are those of the network, not copies.

    Attributes:
        inputs: Names of the model's inputs, in the order of the part's.
        outputs: Names of the model's outputs, in the order of the part's.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    _name: str
    _infos: Mapping[str, TensorInfo] = field(repr=False)
    _nodes: Sequence[NodeOf] = field(repr=False)
    _constants: Mapping[str, Value] = field(repr=False)

    @property
    def bytes_of_constants(self) -> int:
        """Bytes that the constants take in the model."""
        return sum(value.array.nbytes for value in self._constants.values())

    def to_bytes(self) -> bytes:
        """Return the model as one serialized `onnx.ModelProto`, weights included.

        Raises:
            ModelError: It would take 2 GiB or more, which protobuf cannot hold
                (`MODEL_UNSUPPORTED`).
        """
        if self.bytes_of_constants > _MAX_BYTES:
            raise self._too_large()
        model = self._model([_tensor(name, value, raw=True) for name, value in self._constants.items()])
        if model.ByteSize() > _MAX_BYTES:
            raise self._too_large()
        return model.SerializeToString()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model, of any size: constants above a kilobyte go into `<path>.data` beside it.

        Returns:
            Where the model is; both files belong to the caller.
        """
        target = Path(path)
        data = target.with_name(f"{target.name}.data")
        initializers = []
        with data.open("wb") as file:
            for name, value in self._constants.items():
                if value.array.nbytes <= _MAX_INLINE:
                    initializers.append(_tensor(name, value, raw=True))
                    continue
                file.write(b"\0" * (-file.tell() % _ALIGNMENT))
                tensor = _tensor(name, value, raw=False)
                places = {"location": data.name, "offset": str(file.tell()), "length": str(value.array.nbytes)}
                tensor.data_location = onnx.TensorProto.EXTERNAL
                tensor.external_data.extend(onnx.StringStringEntryProto(key=key, value=text) for key, text in places.items())
                file.write(in_order(value.array).data)
                initializers.append(tensor)
        target.write_bytes(self._model(initializers).SerializeToString())
        return target

    def _too_large(self) -> ModelError:
        return ModelError(
            f"the model of {len(self._nodes)} nodes has {self.bytes_of_constants} bytes of constants, and one message of "
            f"protobuf holds {_MAX_BYTES}",
            code=ErrorCode.MODEL_UNSUPPORTED,
            hint="write it with save(path), which puts the constants into a file of their own",
        )

    def _model(self, initializers: Sequence[onnx.TensorProto]) -> onnx.ModelProto:
        nodes = [
            helper.make_node(node.operator, node.inputs, node.outputs, node.name, **node.attributes) for node in self._nodes
        ]
        graph = helper.make_graph(nodes, self._name, self._described(self.inputs), self._described(self.outputs), initializers)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=_IR_VERSION, producer_name="dovetail"
        )

    def _described(self, names: Sequence[str]) -> list[onnx.ValueInfoProto]:
        infos = ((name, self._infos[name]) for name in names)
        return [helper.make_tensor_value_info(name, CODES[info.dtype], info.shape) for name, info in infos]


def _tensor(name: str, value: Value, *, raw: bool) -> onnx.TensorProto:
    tensor = onnx.TensorProto(name=name, data_type=CODES[value.dtype], dims=value.array.shape)
    if raw:
        array = value.array.astype(value.array.dtype.newbyteorder("<"), copy=False)
        tensor.raw_data = np.ascontiguousarray(array).tobytes()
    return tensor
