from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from dovetail import ErrorCode, ModelError
from dovetail.discovery.registry import BackendRow, BackendState
from dovetail_sdk import rendering
from dovetail_sdk.answers import not_finite, outputs_table
from dovetail_sdk.commands import backends, benchmark
from dovetail_sdk.rendering import bytes_text, count_text, cut, print_error, say, seconds_text, shortened, show, styled, table
from dovetail_sdk.statistics import Timing, summary_of, top_classes


def text_of(renderable: Any, width: int = 120) -> str:
    stream = io.StringIO()
    Console(file=stream, markup=False, highlight=False, emoji=False, width=width).print(renderable)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        (bytes_text, 0, "0 B"),
        (bytes_text, 1023, "1023 B"),
        (bytes_text, 1536, "1.5 KiB"),
        (bytes_text, 3 << 20, "3.0 MiB"),
        (bytes_text, 5 << 40, "5.0 TiB"),
        (count_text, 999, "999"),
        (count_text, 1234, "1.23 k"),
        (count_text, 4_110_000_000, "4.11 G"),
        (count_text, 5 * 10**12, "5 T"),
        (seconds_text, 1.23e-5, "12.3 us"),
        (seconds_text, 0.00456, "4.56 ms"),
        (seconds_text, 7.891, "7.89 s"),
        (seconds_text, 123.4, "123 s"),
    ],
)
def test_quantities(function: Callable[[float], str], value: float, text: str) -> None:
    assert function(value) == text


def test_brackets_are_no_markup() -> None:
    text = text_of(table(("name", "shape"), [("[bold]layer[/bold]", "[N, 3]"), (styled("[red]", "green"), ":smile:")]))
    for part in ("[bold]layer[/bold]", "[N, 3]", "[red]", ":smile:"):
        assert part in text


def test_long_cells_are_folded_not_cut() -> None:
    text = text_of(table(("name",), [("x" * 100,)]), width=40)
    assert text.count("x") == 100


def test_piped_tables_are_plain_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    show(table(("name", "size"), [("a", "1")], right=("size",)), table(("b",), [("c" * 150,)]))
    assert capsys.readouterr().out == f" name   size\n -----------\n a         1\n\n b\n {'-' * 150}\n {'c' * 150}\n\n"


def test_a_sentence_is_broken_on_a_terminal_alone(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "a sentence of 猫 " + "some words " * 12 + "and its end"
    say(sentence)
    assert capsys.readouterr().out == f"{sentence}\n"
    monkeypatch.setattr(rendering.sys, "stdout", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr(rendering, "room", lambda *_: 40)
    told: list[str] = []
    monkeypatch.setattr(rendering.click, "echo", told.append)
    say(f"{sentence}\n  second", indent=4)
    (lines,) = (text.split("\n") for text in told[:1])
    assert max(map(cell_len, lines)) <= 40
    assert " ".join(line.strip() for line in lines) == sentence
    assert all(line.startswith(("    some", "    words", "    and")) for line in lines[1:])
    assert told[1:] == ["  second"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            ModelError("the file is bad", code=ErrorCode.MODEL_NOT_FOUND, hint="check it"),
            ["error [MODEL_NOT_FOUND] the file is bad", "  -> check it"],
        ),
        (
            ModelError("open", code=ErrorCode.SHAPE_UNKNOWN, hint="optimize(..., shapes=...)", symbols=["N", "M"]),
            ["error [SHAPE_UNKNOWN] open", "  -> fix the open sizes: --shape N=1 --shape M=1"],
        ),
        (ModelError("no hint"), ["error [MODEL_MALFORMED] no hint"]),
        (PermissionError(13, "Permission denied", "/x"), ["error Permission denied: /x"]),
        (MemoryError(), ["error there is not enough memory"]),
        (
            KeyError("x"),
            ["unexpected KeyError 'x'", "  -> this is a defect; `dovetail --debug ...` shows where it happened"],
        ),
    ],
)
def test_errors_are_sentences(error: Exception, expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    print_error(error)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == expected


def test_backends_table_tells_description_or_reason() -> None:
    facts = {"id": "CpuFake", "abi": [0, 1], "device": "cpu", "rank": 7, "description": "fast [AVX2] kernels"}
    rows = (
        BackendRow("CpuFake", BackendState.AVAILABLE, "fake", "1.0", "fake:Backend", facts),
        BackendRow("Gone", BackendState.BROKEN, "gone", "2.0", "gone:Backend", None, "it is broken", "reinstall it"),
        BackendRow("Here", BackendState.LOADED, None, None, "registered in process"),
    )
    lines = [line for line in text_of(backends.backends_table(rows)).splitlines() if line.strip()]
    assert "fast [AVX2] kernels" in lines[2]
    assert lines[2].split()[:5] == ["CpuFake", "available", "cpu", "7", "fake"]
    assert "see below" in lines[3]
    assert "registered in process" in lines[4]


def test_outputs_table() -> None:
    results = {"y": np.array([[1, 2], [np.nan, np.inf]], np.float32), "empty": np.zeros((0, 3))}
    lines = [line.split() for line in text_of(outputs_table(results, {"y": "float32", "empty": "float64"})).splitlines()]
    assert ["y", "[2,", "2]", "float32", "1", "1.5", "2"] in lines
    assert ["empty", "[0,", "3]", "float64", "-", "-", "-"] in lines
    assert not_finite(results, {}) == ["output 'y': 2 of 4 elements are not finite"]


def test_bfloat16_is_summarized_by_value() -> None:
    bits = (np.float32([-1, 3]).view(np.uint32) >> 16).astype(np.uint16)
    summary = summary_of(bits, bfloat16=True)
    assert (summary.minimum, summary.mean, summary.maximum) == (-1, 1, 3)


def test_top_classes() -> None:
    assert top_classes(np.array([0.1, np.nan, 0.7, 0.7, -1]), 4) == [(2, 0.7), (3, 0.7), (0, 0.1), (4, -1.0)]
    assert top_classes(np.array([1.0, 2.0]), 5) == [(1, 2.0), (0, 1.0)]


def test_outputs_table_has_fewer_digits_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    results = {"model/Layer/of_a_long_name:0": np.full((1, 257, 257, 21), -1.23456789e-7, np.float32)}
    assert "-1.23457e-07" in text_of(outputs_table(results, {}))
    monkeypatch.setattr(rendering, "room", lambda *_: 80)
    lines = text_of(outputs_table(results, {}), 80).splitlines()
    assert [line.split() for line in lines[3:4]] == [
        ["...ng_name:0", "[1,", "257,", "257,", "21]", "float32", *["-1.23e-07"] * 3]
    ]
    assert len([line for line in lines if line.strip()]) == 3, "nothing is broken over two lines"


@pytest.mark.parametrize(
    ("text", "width", "name", "cut_text"),
    [
        ("abcdef", 6, "abcdef", "abcdef"),
        ("abcdefg", 6, "...efg", "abc..."),
        ("abcdefg", 3, "...", "..."),
        ("abcdefg", 1, ".", "."),
        ("猫猫猫猫x", 8, "...猫猫x", "猫猫..."),
        ("", 4, "", ""),
    ],
)
def test_names_are_shortened_from_the_left_and_texts_from_the_right(text: str, width: int, name: str, cut_text: str) -> None:
    assert shortened(text, width) == name
    assert cut(text, width) == cut_text


def test_the_widest_of_long_columns_is_shortened_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "room", lambda *_: 50)
    made = table(
        ("name", "count", "label"),
        [("n" * 40, "1", "l" * 14), ("short", "22", "")],
        right=("count",),
        long=("name",),
        texts=("label",),
    )
    lines = text_of(made, 50).splitlines()
    assert f"...{'n' * 20}" in lines[3]
    assert "l" * 14 in lines[3]
    assert max(map(len, lines)) <= 50


def test_nothing_is_shortened_where_there_is_room() -> None:
    assert "n" * 100 in text_of(table(("name", "a"), [("n" * 100, "1")], long=("name",)))


def test_timing() -> None:
    timing = Timing.of([0.003, 0.001, 0.002, 0.004, 0.010])
    assert (timing.minimum, timing.median, timing.maximum, timing.count) == (0.001, 0.003, 0.010, 5)
    assert timing.p90 == pytest.approx(0.0076)
    with pytest.raises(ValueError, match="nothing was measured"):
        Timing.of([])


def test_peak_memory_is_in_bytes() -> None:
    peak = benchmark.peak_memory()
    assert peak is not None
    assert 1 << 23 < peak < 1 << 40
