"""Columns that texts take on a terminal."""

import random
import unicodedata

import pytest

import dovetail
from dovetail.ground.cell_widths import cell_width, first_cells, last_cells, padded
from dovetail.ground.text_tables import shortened, table_width, text_table, wrapped
from dovetail.optimizer.report_words import short_name

PIECES = [
    "a",
    "b",
    "/",
    "猫",
    "한",
    "ｶ",
    "é",
    "e\u0301",
    "👍🏽",
    "❤\ufe0f",
    "👨\u200d👩\u200d👧",
    "🇩🇪",
    "न\u093f",
    "ᄀ\u1161\u11a8",
]


def text_of(rng, most, pieces=PIECES):
    return "".join(rng.choices(pieces, k=rng.randint(0, most)))


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("conv", 4),
        ("größe", 5),
        ("猫", 2),
        ("分类/層", 7),
        ("한글", 4),
        (unicodedata.normalize("NFD", "한글"), 4),
        ("ﾊﾝ", 2),
        ("\uff21\uff22", 4),
        (unicodedata.normalize("NFD", "größe"), 5),
        ("\u0301", 0),
        ("a\u200bb", 2),
        ("soft\u00adhyphen", 11),
        ("👍", 2),
        ("👍🏽", 2),
        ("❤", 1),
        ("❤\ufe0f", 2),
        ("1\ufe0f\u20e3", 2),
        ("\u2139\ufe0f", 2),
        ("a\ufe0f", 1),
        ("👨\u200d👩\u200d👧", 2),
        ("🇩🇪", 2),
        ("猫\u200d", 2),
        ("नमस\u094dत\u0947", 4),
        ("┌─┐", 3),
    ],
)
def test_widths(text, width):
    assert cell_width(text) == width
    assert first_cells(text, 99) == last_cells(text, 99) == text
    assert padded(text, 12) == text + " " * (12 - width)
    assert padded(text, 12, right=True) == " " * (12 - width) + text


def test_no_character_is_broken():
    rng = random.Random(3)
    for _ in range(2000):
        pieces = rng.choices(PIECES, k=rng.randint(0, 20))
        text, width = "".join(pieces), rng.randint(0, 30)
        begin, end = first_cells(text, width), last_cells(text, width)
        assert text.startswith(begin)
        assert text.endswith(end)
        for part in (begin, end):
            assert cell_width(part) <= width
            assert cell_width(part) >= min(width, cell_width(text)) - 1  # a wide one may not have fitted
        assert not unicodedata.combining((end or "a")[0])
        assert not end.startswith(("\u200d", "\ufe0f", "🏽"))
        assert not begin.endswith("\u200d")


def test_tables_of_wide_names_are_aligned_and_fit():
    rng = random.Random(4)
    for _ in range(200):
        pieces = [piece for piece in PIECES if piece.isprintable()]  # others are written as escapes
        rows = [("layer", "computes", "n")]
        for _ in range(rng.randint(1, 6)):
            words = " ".join(text_of(rng, 4, pieces) or "x" for _ in range(rng.randint(1, 9)))
            rows.append((text_of(rng, 60, pieces), words, str(rng.randint(0, 9999))))
        width = rng.randint(40, 100)
        lines = text_table(rows, width, wrap=(1,), right=(2,)).splitlines()
        assert max(map(cell_width, lines)) <= width
        with_number = [line for line in lines if line.rstrip()[-1:].isdigit()]
        assert len({cell_width(line) for line in with_number}) == 1
        assert table_width(rows) == max(cell_width(line) for line in text_table(rows, 10**6, right=(2,)).splitlines())


def test_lines_of_wide_words_break_where_the_terminal_ends():
    lines = wrapped("分类 " * 30, 20)
    assert {cell_width(line) for line in lines[:-1]} == {19}
    assert cell_width(shortened("猫" * 40, 20)) == 19
    assert cell_width(short_name("猫" * 100)) == 47


def test_a_network_of_wide_names_fits_its_columns():
    network = dovetail.Network("網" * 90)
    x = network.input("画像" * 40, (1, 3))
    y = network.relu(x, name="層/" + "活性化" * 30)
    network.output(network.relu(y, name="short"), "결과" * 30)
    lines = str(network).splitlines()
    assert max(map(cell_width, lines)) <= 100
    (first,) = [line for line in lines if "活性化" in line]
    (second,) = [line for line in lines if line.startswith("short")]
    assert cell_width(first.partition("Activation")[0]) == cell_width(second.partition("Activation")[0])
