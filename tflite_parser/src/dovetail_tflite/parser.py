"""The parser: what `dovetail.load("model.tflite")` finds."""

from __future__ import annotations

import os

from dovetail import DovetailError, Network
from dovetail.ground.limits import limited

from .flatbuffer import said
from .malformed import malformed
from .model_file import LOW_LEVEL_ERRORS, ModelFile, read_model
from .translation import translate


class TfliteParser:
    """Parser of TensorFlow Lite files; fits `dovetail.contract.interfaces.IParser`."""

    def parse(self, path: str | os.PathLike[str]) -> Network:
        """Read a model file; nothing in it is ever executed.

        Raises:
            ModelError: The file is missing, malformed, or asks for what dovetail does not have.
        """
        network = _translated(read_model(path))
        network.files = (os.fspath(path),)
        return network

    def takes(self, content: object) -> bool:
        """Tell whether bytes have the mark of a TensorFlow Lite model."""
        return isinstance(content, bytes) and content[4:8] == b"TFL3"

    def parse_content(self, content: bytes) -> Network:
        """Read the bytes of a file; raises what `parse` raises."""
        return parse(content)


def parse(model: str | os.PathLike[str] | bytes, *, signature: str | None = None) -> Network:
    """Turn a model into a network.

    Inputs and outputs have the names of the signature where it names each of them once, else those
    of their tensors, made unique; an open size is called ``<input>_dim<axis>``. Layers are called
    after their operator's first output.

    Args:
        model: A path, or the bytes of a file.
        signature: Key of the signature to translate; default the first subgraph, with the names of
            its signature if it has just one.

    Raises:
        UnsupportedModelError: Lists every operator and type that dovetail does not have.
        ModelError: The model or the signature is missing (`MODEL_NOT_FOUND`), or it is malformed.
        LimitError: It asks for more than the limits of the load under way allow, or the default
            ones.
    """
    with limited(None):
        return _translated(read_model(model), signature)


def _translated(found: ModelFile, signature: str | None = None) -> Network:
    try:
        network = translate(found, signature)
        found.check()
        return network
    except DovetailError:
        found.check()  # else what was read of two files is called broken
        raise
    except LOW_LEVEL_ERRORS as error:
        # A file may lie in ways that no check foresees; whatever Python then says is about the
        # file.
        found.check()
        raise malformed(f"{found.origin} is malformed: {said(error)}") from error
    finally:
        found.close()
