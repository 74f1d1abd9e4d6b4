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
from .ovx.binary import operands_of


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
            content = _content(path)
            try:
                inputs, outputs = operands_of(content)
            except VsiError as error:
                found = f"{os.fspath(path)!r}: {error.message}"
                known = error.code is ErrorCode.MODEL_UNSUPPORTED
                raise ModelError(found, code=error.code if known else ErrorCode.MODEL_MALFORMED, hint=error.hint) from error
            network = Network(os.path.basename(os.fspath(path)))
            binary = network.constant(np.frombuffer(content, np.uint8), "binary", copy=False)
            read = [
                network.input(name, info.shape, info.dtype, quantization=info.quantization)
                for name, info in zip(_names("input", len(inputs)), map(_info, inputs), strict=True)
            ]
            layer = network.add(BinaryProgram(infos=tuple(map(_info, outputs))), binary, *read, name="program")
            for name, slot in zip(_names("output", len(outputs)), layer.outputs, strict=True):
                network.output(slot, name)
            network.files = (os.fspath(path),)
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
