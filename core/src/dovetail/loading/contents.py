"""Turn a model that lies in memory into a network, by the installed parser that takes it.

A name's suffix tells the format of a file; what lies in memory has none, so the parsers are asked.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from ..discovery import offers
from ..ground.errors import ErrorCode, ModelError, OptionError
from ..ground.limits import budget
from .parsers import GROUP, created, installed_suffixes, parsed

if TYPE_CHECKING:
    from ..discovery import Offer
    from ..layers.network import Network

LOOKED_AT = 64
"""Bytes in which a parser recognizes its format."""
_PIECE = 1 << 20
"""Bytes of a stream that are read at once."""


def parse_content(model: Any) -> Network:
    """Read a model that is no path.

    Args:
        model: The bytes of a file, a binary file that is open for reading, or a model as a package
            for its format holds it, such as an `onnx.ModelProto`.

    Raises:
        OptionError: It is nothing that an installed parser takes (`OPTION_INVALID`).
        ModelError: Bytes are in no format that one reads (`MODEL_FORMAT_UNKNOWN`), or it is
            malformed.
    """
    content = _read(model)
    size = memoryview(content).nbytes if isinstance(content, bytes | bytearray | memoryview) else None
    looked_at = content if size is None else bytes(memoryview(content).cast("B")[:LOOKED_AT])
    taker = taker_of(looked_at)
    if taker is not None:
        offer, parser = taker
        return parsed(offer, offer.name, parser.parse_content, content, "the model")
    if size is None:
        formats = ", ".join(f".{name}" for name in installed_suffixes()) or "none"
        raise OptionError(
            f"{type(model).__name__!r} is not the path of a model file, the bytes of one, or a model in memory",
            code=ErrorCode.OPTION_INVALID,
            hint=f"give one of these, or to dovetail.load a dovetail.Network; formats that are read: {formats}",
        )
    raise _unknown(
        looked_at,
        f"the {size} bytes are a model in no format that an installed parser recognizes" if size else "the model has no bytes",
    )


def _unknown(begin: bytes, what: str) -> ModelError:
    from .beginnings import what_begins_so  # only what goes wrong needs it

    formats = ", ".join(f".{name}" for name in installed_suffixes()) or "none"
    return ModelError(
        what,
        code=ErrorCode.MODEL_FORMAT_UNKNOWN,
        hint=what_begins_so(begin) or f"formats that are read: {formats}; give the whole file, as it is on disk",
    )


def taker_of(content: Any) -> tuple[Offer, Any] | None:
    """Return the offer of the parser that takes a model in memory, and the parser; None: none does.

    Args:
        content: The first `LOOKED_AT` bytes, or what a package for a format holds.

    Raises:
        ModelError: A parser that is asked is broken.
    """
    seen: set[str] = set()
    for offer in offers(GROUP):
        if offer.value in seen:
            continue
        seen.add(offer.value)
        parser = created(offer, offer.name)
        takes = getattr(parser, "takes", None)
        if takes is not None and takes(content):
            return offer, parser
    return None


def _read(model: Any) -> Any:
    """Return the content of a file; anything else as it is.

    A pipe may never end: no more is read of one than its beginning, if no parser knows that, and
    than the load may take.
    """
    if isinstance(model, bytes | bytearray | memoryview) or not callable(getattr(model, "read", None)):
        return model
    load, content, is_known = budget(), BytesIO(), False
    while True:
        load.check_time()
        piece = model.read(_PIECE if is_known else LOOKED_AT - content.tell())
        if not isinstance(piece, bytes | bytearray | memoryview):
            raise OptionError(
                f"{type(model).__name__!r} gave {type(piece).__name__!r}, not bytes",
                code=ErrorCode.OPTION_INVALID,
                hint="open it in binary mode: open(path, 'rb')",
            )
        if not len(piece):
            return content.getvalue()
        load.take_memory(len(piece), "the model")
        content.write(piece)
        if not is_known and content.tell() >= LOOKED_AT:
            is_known = taker_of(content.getvalue()[:LOOKED_AT]) is not None
            if not is_known:
                raise _unknown(content.getvalue(), "the model begins as no format does that an installed parser recognizes")
