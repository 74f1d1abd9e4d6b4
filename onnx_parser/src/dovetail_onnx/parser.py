"""The parser: what `dovetail.load("model.onnx")` finds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dovetail import DovetailError, Network
from dovetail.ground.limits import limited

from .external_data import ExternalData
from .malformed import malformed
from .model_file import LOW_LEVEL_ERRORS, ModelFile, begins_as_model, read_model
from .translation import translate

if TYPE_CHECKING:
    import onnx


class OnnxParser:
    """Parser of ONNX files; fits `dovetail.contract.interfaces.IParser`."""

    def parse(self, path: str | os.PathLike[str]) -> Network:
        """Read a model file; nothing in it is ever executed.

        Raises:
            ModelError: The file is missing, malformed, or asks for what dovetail does not have.
        """
        found = read_model(path)
        external = ExternalData(found.folder)
        network = _translated(found, external)
        network.files = (os.fspath(path), *external.files)
        return network

    def takes(self, content: object) -> bool:
        """Tell whether bytes begin as an ONNX model does, or a message of `onnx` is one."""
        return begins_as_model(content) if isinstance(content, bytes) else type(content).__name__ == "ModelProto"

    def parse_content(self, content: bytes | onnx.ModelProto) -> Network:
        """Read a model in memory; raises what `parse` raises. It cannot have external data."""
        return parse(content)


def parse(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto, *, base_dir: str | os.PathLike[str] | None = None
) -> Network:
    """Turn a model into a network.

    Inputs and outputs keep their names, a symbolic dimension keeps its `dim_param`, an unknown one
    is called ``<input>_dim<axis>``. A graph input that has an initializer is a constant, not an
    input. Layers are called after their nodes.

    The model is not handed to `onnx.checker` or to ONNX's shape inference: both are C++ that walks
    the untrusted file by itself. What is read is checked where it is read.

    Args:
        model: A path, the bytes of a file, or a loaded model.
        base_dir: Folder of external data; default the folder of the file.

    Raises:
        UnsupportedModelError: Lists every operator, attribute and type that dovetail does not have.
        ModelError: The model is missing (`MODEL_NOT_FOUND`), malformed, or reaches for files
            elsewhere (`EXTERNAL_DATA_REFUSED`).
        LimitError: It asks for more than the limits of the load under way allow, or the default
            ones.
    """
    with limited(None):
        found = read_model(model)
        return _translated(found, ExternalData(base_dir if base_dir is not None else found.folder))


def _translated(found: ModelFile, external: ExternalData) -> Network:
    try:
        return translate(found, external)
    except DovetailError:
        raise
    except LOW_LEVEL_ERRORS as error:
        # A file may lie in ways that no check foresees; whatever Python then says is about the
        # file.
        raise malformed(
            f"{found.origin} is malformed: {type(error).__name__}: {error}",
            hint="check the file with onnx.checker, or export the model again",
        ) from error
