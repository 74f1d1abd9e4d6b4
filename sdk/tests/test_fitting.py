"""Tables of any width: no line is wider, no word is broken."""

from __future__ import annotations

import io
import random

import pytest
from rich.cells import cell_len

from dovetail_sdk.fitting import Column, fitted, fitted_table, shortened
from dovetail_sdk.rendering import console

COLUMNS = [
    Column("layer", least=24),
    Column("kind", least=12),
    Column("output", leaves=1),
    Column("time", right=True),
    Column("note", leaves=0),
]


def row(
    layer: str, kind: str = "Convolve", output: str = "1x64x56x56", time: str = "1.25 ms", note: str = ""
) -> dict[str, str]:
    return {"layer": layer, "kind": kind, "output": output, "time": time, "note": note}


def lines_of(rows: list[dict[str, str]], width: int) -> list[str]:
    text = io.StringIO()
    console(text, width).print(fitted_table(COLUMNS, rows, width))
    return [line.rstrip() for line in text.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("text", "width", "result"),
    [
        ("block/one/conv", 14, "block/one/conv"),
        ("block/one/conv", 13, "...k/one/conv"),
        ("block/one/conv", 4, "...v"),
        ("block/one/conv", 3, "..."),
        ("", 0, ""),
    ],
)
def test_names_are_shortened_from_the_left(text: str, width: int, result: str) -> None:
    assert shortened(text, width) == result
    assert len(result) <= width


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_rows_stay_in_one_line_each(width: int) -> None:
    luck = random.Random(width)
    words = [row("model/" + "a" * luck.randrange(150) + f"/{n}", "K" * luck.randrange(1, 30), note="x" * n) for n in range(30)]
    lines = lines_of(words, width)
    assert max(map(len, lines)) <= width
    rows = [line.split() for line in lines if "ms" in line]
    assert len(rows) == len(words)
    for number, cells in enumerate(rows):
        assert cells[0].endswith(f"/{number}")
        assert "1.25 ms" in " ".join(cells), "numbers are never cut"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_wide_characters_stay_in_one_line_too(width: int) -> None:
    luck = random.Random(width)
    pieces = ["猫", "한", "層/", "a", "e\u0301", "👍🏽", "\u200b"]  # the last is written as an escape
    words = [row("".join(luck.choices(pieces, k=luck.randrange(90))) + f"/{n}", note="畫" * n) for n in range(20)]
    lines = lines_of(words, width)
    assert max(map(cell_len, lines)) <= width
    rows = [line for line in lines if "1.25 ms" in line]
    assert len(rows) == len(words) == len(lines) - lines.count("") - 2
    assert {cell_len(line.partition(" ms")[0]) for line in rows if "畫" not in line} == {
        cell_len(line.partition(" ms")[0]) for line in rows
    }


@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (120, ["layer", "kind", "output", "time", "note"]),
        (65, ["layer", "kind", "output", "time"]),
        (50, ["layer", "kind", "time"]),
        (36, ["layer", "kind", "time"]),
    ],
)
def test_what_leaves_first(width: int, headings: list[str]) -> None:
    chosen, _ = fitted(COLUMNS, [row("a" * 30, note="tuned: this, not that")], width)
    assert [column.heading for column in chosen] == headings


def test_an_empty_column_is_left_out() -> None:
    assert [column.heading for column in fitted(COLUMNS, [row("stem")], 200)[0]] == ["layer", "kind", "output", "time"]


def test_too_narrow_for_all_is_as_narrow_as_it_gets() -> None:
    chosen, ((layer, kind, time),) = fitted(COLUMNS, [row("model/" + "a" * 40, "K" * 20)], 10)
    assert [column.heading for column in chosen] == ["layer", "kind", "time"]
    assert (len(layer), len(kind), time) == (12, 12, "1.25 ms")


def test_no_rows() -> None:
    chosen, cells = fitted(COLUMNS, [], 80)
    assert [column.heading for column in chosen] == ["layer", "kind"]
    assert cells == []
