"""Tables of plain text."""

import io
import random
import string

import pytest

from dovetail.ground import text_tables
from dovetail.ground.text_tables import UNLIMITED, shortened, table_width, terminal_width, text_table, wrapped
from dovetail.ground.units import count_text


def test_the_end_of_a_long_name_is_kept():
    assert shortened("features.0.conv", 40) == "features.0.conv"
    assert shortened("features.0.conv", 11) == "...s.0.conv"
    assert all(len(shortened("a" * 99, width)) == width for width in range(4, 99))


def test_lines_break_at_blanks_alone():
    rng = random.Random(7)
    for _ in range(300):
        words = ["".join(rng.choices(string.ascii_letters, k=rng.randint(1, 14))) for _ in range(rng.randint(1, 30))]
        width, indent = rng.randint(8, 60), rng.randint(0, 4)
        lines = wrapped(" ".join(words), width, indent)
        assert [word for line in lines for word in line.split()] == words
        assert all(len(line) <= width or len(line.split()) == 1 for line in lines)
        assert all(line.startswith(" " * indent) for line in lines[1:])
        assert all(line == line.rstrip() for line in lines)


def test_numbers_stay_with_what_they_count():
    text = "18 layers: 2 Pooling2d, 1 ElementwiseBinary (16.0 %), 24.9 k parameters, [1, 2, 3]"
    for width in range(22, len(text) + 1):
        lines = wrapped(text, width, 2)
        assert " ".join(" ".join(lines).split()) == text
        assert max(map(len, lines)) <= width
        assert not [line for line in lines if line.endswith((" 2", " 1", "(16.0", "24.9", "18"))]
    assert wrapped("12 " + "a" * 10, 10) == ["12", "a" * 10]
    assert wrapped("1 2 3 4 5 6", 3) == ["1 2", "3 4", "5 6"]


@pytest.mark.parametrize("text", ["", " ", "one", "a  b"])
def test_little_text(text):
    assert " ".join(wrapped(text, 20)).split() == text.split()


def test_a_table_fits_and_loses_no_word_of_what_is_wrapped():
    rng = random.Random(8)
    for _ in range(100):
        rows = [("layer", "computes", "number")]
        for _ in range(rng.randint(1, 6)):
            words = ["".join(rng.choices(string.ascii_letters, k=rng.randint(1, 9))) for _ in range(rng.randint(1, 12))]
            rows.append(("/".join(rng.choices(words, k=4)), " ".join(words), str(rng.randint(0, 99999))))
        width = rng.randint(48, 120)
        text = text_table(rows, width, wrap=(1,), right=(2,))
        assert all(len(line) <= width for line in text.splitlines()), text
        for _, words, number in rows:
            assert set(words.split()) <= set(text.split())
            assert number in text.split()
        assert text_table(rows, table_width(rows), wrap=(1,)) == text_table(rows, UNLIMITED, wrap=(1,))


def test_notes_stand_below_their_row():
    text = text_table([("a",), ("b",), ("c",)], 40, notes=[(), ("of b",), ()])
    assert text.splitlines() == ["a", "b", "    of b", "c"]


@pytest.mark.parametrize(
    ("count", "expected"), [(0, "0"), (999, "999"), (1000, "1 k"), (1234, "1.23 k"), (4.11e9, "4.11 G"), (10**15, "1e+03 T")]
)
def test_counts(count, expected):
    assert count_text(int(count)) == expected


def test_only_a_terminal_has_columns(monkeypatch):
    monkeypatch.setattr(text_tables.sys, "stdout", io.StringIO())
    assert terminal_width() == UNLIMITED
    monkeypatch.setattr(text_tables.sys, "stdout", None)
    assert terminal_width() == UNLIMITED
    monkeypatch.setattr(text_tables.sys, "stdout", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setenv("COLUMNS", "73")
    assert terminal_width() == 73
