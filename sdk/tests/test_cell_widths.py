"""Columns of texts, as the core and rich measure them: independently of each other."""

from __future__ import annotations

import random
import unicodedata

import pytest
from rich.cells import cell_len

from dovetail.ground.cell_widths import cell_width, first_cells, last_cells
from dovetail_sdk.rendering import cut, shortened

EMOJI = ("👍🏽", "👨\u200d👩\u200d👧", "🏴\u200d☠\ufe0f", "❤\ufe0f", "1\ufe0f\u20e3", "🇩🇪", "©\ufe0f")
IN_NEWER_TABLES = {*range(0x2630, 0x2638), *range(0x268A, 0x2690), *range(0x4DC0, 0x4E00), *range(0x1D300, 0x1D377)}
"""Characters that are wide since Unicode 16: the tables of Python and rich may be of others."""


def is_told_by_both(number: int) -> bool:
    """Say whether a code point is a character of a name, and no newer than Python."""
    kind = unicodedata.category(chr(number))
    return kind not in ("Cn", "Cs", "Co", "Cc", "Cf") and number not in IN_NEWER_TABLES


CHARACTERS = [chr(number) for number in range(0x110000) if is_told_by_both(number)]


def test_each_character_is_as_wide_as_rich_says() -> None:
    other = {character: cell_len(character) for character in CHARACTERS if cell_width(character) != cell_len(character)}
    # Tables of other versions may differ in some; a rule of ours that is wrong would tell in more.
    assert len(other) < 250, other
    common = {name: c for c in other if (name := unicodedata.name(c, "")).startswith(("CJK", "HANGUL S", "HIRA", "LATIN"))}
    assert not common


def test_random_texts_are_as_wide_as_rich_says() -> None:
    if any(cell_len(emoji) != 2 for emoji in EMOJI):
        pytest.skip("this version of rich adds up what a joiner joins")
    alike = [character for character in CHARACTERS if cell_width(character) == cell_len(character)]
    rng = random.Random(11)
    for _ in range(3000):
        text = "".join(rng.choice(rng.choice((alike, EMOJI, "ab/猫é한"))) for _ in range(rng.randint(0, 40)))
        assert cell_width(text) == cell_len(text), text
        width = rng.randint(0, 60)
        for part in (first_cells(text, width), last_cells(text, width), shortened(text, width), cut(text, width)):
            assert cell_len(part) <= width
