"""A file that the vendor's compiler made (`.nb`), as a network of one layer.

For networks that were compiled elsewhere, by the vendor's own tools for example: the file runs as
it is, on the chip that it was made for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from dovetail import Descriptor, DType, ErrorCode, ModelError, Network, Quantization, TensorInfo
from dovetail.graph.descriptor import Infos, descriptor_class
from dovetail.ground.limits import budget, limited

from .driver import Operand
from .errors import VsiError
from .ovx.binary import MAGIC, operands_of


@descriptor_class
class BinaryProgram(Descriptor, kind="vsi.BinaryProgram"):
    """A program that the vendor's compiler made.

    Inputs: the binary, uint8 [bytes], and whatever it reads, in its order.
    """

    input_names: ClassVar[tuple[str, ...]] = ("binary", "input")
    required_inputs: ClassVar[int] = 1
    variadic: ClassVar[bool] = True
    infos: tuple[TensorInfo, ...]
    """Of what it writes, in its order."""

    @property
    def output_count(self) -> int:
        return len(self.infos)

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return self.infos

    def in_words(self) -> str:
        return "binary of the vendor's compiler"


class BinaryParser:
    """Parser of such files; fits `dovetail.contract.interfaces.IParser`."""

    def parse(self, path: str | os.PathLike[str]) -> Network:
        """Read a binary: its inputs and outputs alone are looked at, nothing of it is executed.

        Raises:
            ModelError: The file is missing or malformed.
        """
        with limited(None):
            network = _network(_content(path), repr(os.fspath(path)), os.path.basename(os.fspath(path)))
            network.files = (os.fspath(path),)
            return network

    def takes(self, content: object) -> bool:
        """Tell whether bytes have the mark of a binary."""
        return isinstance(content, bytes) and content.startswith(MAGIC)

    def parse_content(self, content: bytes) -> Network:
        """Read the bytes of a file; raises what `parse` raises."""
        return _network(bytes(content), "the binary", "binary")


def _network(content: bytes, origin: str, name: str) -> Network:
    try:
        inputs, outputs = operands_of(content)
    except VsiError as error:
        known = error.code is ErrorCode.MODEL_UNSUPPORTED
        code = error.code if known else ErrorCode.MODEL_MALFORMED
        raise ModelError(f"{origin}: {error.message}", code=code, hint=error.hint) from error
    network = Network(name)
    binary = network.constant(np.frombuffer(content, np.uint8), "binary", copy=False)
    read = [
        network.input(name, info.shape, info.dtype, quantization=info.quantization)
        for name, info in zip(_names("input", len(inputs)), map(_info, inputs), strict=True)
    ]
    layer = network.add(BinaryProgram(infos=tuple(map(_info, outputs))), binary, *read, name="program")
    for name, slot in zip(_names("output", len(outputs)), layer.outputs, strict=True):
        network.output(slot, name)
    return network


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        size = os.path.getsize(path)
        budget().take_memory(size, repr(os.fspath(path)))
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ModelError(
            f"{os.fspath(path)!r} cannot be read: {error.strerror}",
            code=ErrorCode.MODEL_NOT_FOUND,
            hint="check the path and its permissions",
        ) from error


def _names(word: str, count: int) -> list[str]:
    return [word] if count == 1 else [f"{word}{index}" for index in range(count)]


def _info(operand: Operand) -> TensorInfo:
    quantization = None if operand.scale is None else Quantization.per_tensor(operand.scale, operand.zero_point)
    return TensorInfo(operand.shape, DType.of(operand.dtype), quantization)
