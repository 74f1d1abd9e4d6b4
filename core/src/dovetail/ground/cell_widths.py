"""How many columns of a terminal a text takes: letters of East Asia two, accents none.

Widths are those of Unicode's East Asian Width (UAX #11), by Python's own tables. What continues the
character before it has no width of its own: combining marks, formats, the vowels and last
consonants of Hangul, colours of skin, and whatever a zero width joiner joins.
"""

from __future__ import annotations

from collections.abc import Iterator

_JOINER = "\u200d"
_AS_PICTURE = "\ufe0f"
"""Variation selector 16: the character before it is shown as an emoji, two columns wide."""
_LETTER_AS_PICTURE = "\u2139"
"""The only letter that there is such an emoji of."""
_WITHOUT_WIDTH = frozenset({"Mn", "Me", "Mc", "Cf", "Cc", "Zl", "Zp"})
_SOFT_HYPHEN = "\u00ad"
_CONTINUING = (("\u1160", "\u11ff"), ("\ud7b0", "\ud7ff"), ("\U0001f3fb", "\U0001f3ff"))
_FILLERS = "\u3164\uffa0"
"""Letters of Hangul that stand for none."""


def cell_width(text: str) -> int:
    """Return the columns that a text takes on a terminal."""
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(width for _, width in _characters(text))


def last_cells(text: str, width: int) -> str:
    """Return as much of the end of a text as fits so many columns, no character of it broken."""
    if text.isascii() and text.isprintable():
        return text[max(len(text) - width, 0) :]
    kept: list[str] = []
    for character, columns in reversed([*_characters(text)]):
        width -= columns
        if width < 0:
            break
        kept.append(character)
    return "".join(reversed(kept))


def first_cells(text: str, width: int) -> str:
    """Return as much of the beginning of a text, as `last_cells` does of its end."""
    if text.isascii() and text.isprintable():
        return text[: max(width, 0)]
    kept: list[str] = []
    for character, columns in _characters(text):
        width -= columns
        if width < 0:
            break
        kept.append(character)
    return "".join(kept)


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Fill a text with blanks up to so many columns, before it if it is set flush right."""
    blanks = " " * (width - cell_width(text))
    return f"{blanks}{text}" if right else f"{text}{blanks}"


def _characters(text: str) -> Iterator[tuple[str, int]]:
    """Part a text into what is shown as one character, and its columns."""
    shown, width, is_joined = "", 0, False
    for character in text:
        own = 0 if is_joined else _width_of(character)
        if own:
            if shown:
                yield shown, width
            shown, width = character, own
        else:
            if character == _AS_PICTURE and width == 1 and (not shown[0].isalpha() or shown[0] == _LETTER_AS_PICTURE):
                width = 2
            shown += character
        is_joined = character == _JOINER
    if shown:
        yield shown, width


def _width_of(character: str) -> int:
    """Return the columns of a character by itself."""
    from unicodedata import category, east_asian_width

    if character == _SOFT_HYPHEN:
        return 1
    if category(character) in _WITHOUT_WIDTH or character in _FILLERS:
        return 0
    if any(first <= character <= last for first, last in _CONTINUING):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
