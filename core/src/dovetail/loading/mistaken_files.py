"""Say what a file seems to be that is not of the format that its name says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .beginnings import what_begins_so
from .contents import LOOKED_AT, taker_of

if TYPE_CHECKING:
    from ..discovery import Offer


def what_else(file: str, offer: Offer) -> str | None:
    """Return the next step for a file that its parser found malformed, if it is something else.

    Args:
        file: Its path.
        offer: The parser of its suffix.
    """
    try:
        with open(file, "rb") as opened:
            begin = opened.read(LOOKED_AT)
        hint = what_begins_so(begin)
        if hint is not None:
            return hint
        taker = taker_of(begin)
    except Exception:  # the file has gone, or another parser is broken: the error that is under way tells more
        return None
    if taker is None or taker[0].value == offer.value:
        return None
    return f"it begins as a .{taker[0].name} file does: name it so, or give its bytes"
