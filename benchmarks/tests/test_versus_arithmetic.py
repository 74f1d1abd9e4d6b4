from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from versus.agreement import Agreement, Answer, Tolerance, compare, judge
from versus.peak import PeakError, PeakMeter
from versus.results import Block, Comparison, Entry, Report, Start, State, geometric_mean, geometric_means
from versus.tables import Grid, detail, markdown, remarks, starting, summary

from dovetail_sdk.tuning.interference import busy_seconds, is_disturbed, usable_cpus

MIB = 2**20
READY = {"baseline_bytes": MIB, "peak_bytes": 3 * MIB, "facts": {}}


def entry(name: str, medians: list[float], state: State = State.MEASURED, **more: object) -> Entry:
    blocks = [Block(median, median / 2, 10) for median in medians]
    return Entry(name, state, ready=READY, blocks=blocks, peak_bytes=3 * 2**20, **more)  # type: ignore[arg-type]  # as named


def comparison(threads: int = 1, ours: float = 2.0) -> Comparison:
    entries = [
        entry("dovetail", [ours, 2 * ours, ours]),
        entry("steady", [4.0, 4.0, 4.0]),
        entry("quick", [1.0, 6.0, 3.0]),
        entry("bf16", [0.5] * 3, exact=False),
        entry("wrong", [0.1] * 3, State.DISAGREES, reason="wrong answers otherwise", agreement=Agreement(False, "x", math.inf)),
        Entry("gone", State.FAILED, "gone crashed"),
    ]
    entries[0].starts += [Start(0.25, 0.5, 0.01, MIB, 2 * MIB, 6 * MIB), Start(0.5, 0.25, 0.03, MIB, 4 * MIB, 7 * MIB)]
    entries[2].starts += [Start(1.0, 0.13, 0.01, MIB, 2 * MIB, 3 * MIB)]
    return Comparison("model.onnx", threads, 8, "random", entries, peaks=[16.0, 8.0, 16.0])


def report(*comparisons: Comparison) -> Report:
    machine = {"cpu": "a | b", "cores": 4, "usable_cores": 2, "system": "Linux"}
    return Report(
        "2026-01-01", "dovetail benchmark", machine, {"dovetail": "0.1.0"}, {"rounds": 3}, comparisons=list(comparisons)
    )


def test_ratios_are_taken_within_rounds() -> None:
    one = comparison()
    assert one.best_peer is not None
    assert one.best_peer.runtime == "quick"  # 3 against 4; what is inexact, wrong or gone does not count
    assert one.ratios(one.best_peer) == [0.5, 1.5, 1.5]
    assert one.ratio(one.best_peer) == 1.5
    assert one.ratio(one.entries[1]) == 2.0  # of 2, 1, 2
    assert one.ratio(None) is None
    assert one.ratio_of_minima(one.best_peer) == 0.5  # halves of 1 and 2
    assert one.ratio_of_minima(one.entries[4]) is None
    assert one.ours.median == 2.0
    assert one.ours.minimum == 1.0
    assert one.ours.memory_bytes == 2 * 2**20


def test_starts_are_compared_by_their_least() -> None:
    one = comparison()
    ours, quick, gone = one.ours, one.entries[2], one.entries[5]
    assert ours.least("model_seconds") == pytest.approx(0.28)  # of 0.51 and 0.28
    assert ours.least("seconds") == pytest.approx(0.76)  # of 0.76 and 0.78
    assert ours.least("increase_bytes") == 3 * MIB  # of 4 and 3
    assert one.ratio_of_starts(quick, "model_seconds") == pytest.approx(0.5)
    assert one.ratio_of_starts(quick, "peak_bytes") == 0.5
    assert gone.least("seconds") is one.ratio_of_starts(gone, "seconds") is None
    first, _, third, *_, last = starting(report(one)).rows
    assert first[2:7] == ["dovetail", "250 ms", "250 ms", "10 ms", "280 ms"]
    assert first[7:] == ["-", "760 ms", "6.0 MiB", "-", "3.0 MiB"]
    assert third[7:] == ["0.5", "1.14 s", "3.0 MiB", "0.5", "1.0 MiB"]
    assert last[3:] == ["-"] * 9


def test_no_ratio_without_a_right_answer() -> None:
    one = comparison()
    one.entries[0].state = State.DISAGREES
    assert one.ratio(one.entries[1]) is None
    assert one.as_dict()["ratio"] is None


def test_part_of_peak() -> None:
    one = comparison()
    assert one.part_of_peak(one.ours) == pytest.approx(0.25)  # 8 MACs: 0.5, 1 and 0.5 s at the peak, of 2, 4 and 2 s
    one.peaks = []
    assert one.part_of_peak(one.ours) is None


def test_geometric_mean() -> None:
    assert geometric_mean([]) is None
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1)
    found = geometric_means([comparison(1), comparison(1, ours=0.5), comparison(2)])
    assert found == {1: (pytest.approx(3.0), 2), 2: (pytest.approx(1.5), 1)}  # 1.5 and 6: 3


def test_tables() -> None:
    one = report(comparison(1), comparison(2))
    rows = {row[2]: row for row in reversed(detail(one).rows)}
    assert rows["dovetail"][:2] == ["model.onnx (8 MAC)", "1"]
    assert rows["dovetail"][3:9] == ["2 s", "1 s", "-", "25.0%", "2.0 MiB", "-"]
    assert rows["quick"][3:6] == ["3 s", "500 ms", "1.5"]
    assert rows["gone"][3:] == ["failed", *["-"] * 5]
    last = summary(one).rows[-1]
    assert (last[0], last[1], last[5]) == ("geometric mean of 1", "2", "1.5")
    assert summary(one).rows[0] == ["model.onnx", "1", "2 s", "quick", "3 s", "1.5", "0.5 .. 1.5", "0.5"]
    assert "model.onnx, 2 threads: gone crashed" in remarks(one)
    text = markdown(one)
    assert "| geometric mean of 1 | 1 |" in text
    assert "machine: a | b, 2 of 4 cores, Linux" in text


def test_markdown_escapes_bars() -> None:
    grid = Grid(("a", "b"), [("x|y", "1")], ("b",))
    assert grid.markdown() == "| a | b |\n| --- | ---: |\n| x\\|y | 1 |"


def test_json_is_strict_and_failures_are_not_clean() -> None:
    one = report(comparison())
    document = json.loads(json.dumps(one.as_dict(), allow_nan=False))
    assert document["comparisons"][0]["best_peer"] == "quick"
    assert document["comparisons"][0]["entries"][4]["agreement"]["largest"] is None
    assert document["geometric_means"] == {"1": {"ratio": pytest.approx(1.5), "models": 1}}
    assert not one.is_clean
    one.comparisons[0].entries[4:] = [Entry("not installed", State.ABSENT, "pip install it")]
    assert one.is_clean


def test_comparing() -> None:
    x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4) + 1
    assert compare([x * np.float32(1.0005)], [x], "x", Tolerance.SINGLE).agrees
    assert not compare([x * np.float32(1.002)], [x], "x", Tolerance.SINGLE).agrees
    assert compare([x * np.float32(1.45)], [x], "x", Tolerance.EIGHT_BITS).agrees
    assert not compare([x * np.float32(1.55)], [x], "x", Tolerance.EIGHT_BITS).agrees
    assert compare([x * 3], [x], "x", Tolerance.OWN_QUANTIZATION).agrees
    assert not compare([x * 0], [x], "x", Tolerance.OWN_QUANTIZATION).agrees
    assert not compare([-x], [x], "x", Tolerance.OWN_QUANTIZATION).agrees
    last = np.moveaxis(x, 1, -1)
    assert compare([last], [x], "x", Tolerance.SINGLE, channels_last=True).agrees
    assert compare([x], [x], "x", Tolerance.SINGLE, channels_last=True).agrees
    assert "shape [1, 3, 4, 2], not [1, 2, 3, 4]" in compare([last], [x], "x", Tolerance.SINGLE).reason
    assert "2 outputs, not 1" in compare([x, x], [x], "x", Tolerance.SINGLE).reason
    cube = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    assert compare([np.moveaxis(cube, 1, -1)], [cube], "x", Tolerance.SINGLE, channels_last=True).agrees


def test_comparing_what_is_not_finite() -> None:
    expected = np.array([1, -np.inf], np.float32)
    assert compare([expected], [expected], "x", Tolerance.SINGLE).agrees
    assert not compare([np.array([1, 2], np.float32)], [expected], "x", Tolerance.SINGLE).agrees
    assert "not finite" in compare([np.array([np.nan, -np.inf], np.float32)], [expected], "x", Tolerance.SINGLE).reason
    empty = np.zeros((0, 3), np.float32)
    assert compare([empty], [empty], "x", Tolerance.SINGLE).agrees


def test_without_expected_outputs_the_majority_is_right() -> None:
    right, wrong = [np.ones(3)], [np.full(3, 2.0)]
    answers = {name: Answer(value, value, Tolerance.SINGLE) for name, value in (("a", wrong), ("b", right), ("c", right))}
    verdicts = judge(answers, None, "")
    assert {name: one.agrees for name, one in verdicts.items()} == {"a": False, "b": True, "c": True}
    assert verdicts["a"].against == "b"
    assert judge(answers, wrong, "file.npz")["a"] == Agreement(True, "file.npz", 0.0, 0.0, 1.0)
    assert judge({}, None, "") == {}


def test_interference() -> None:
    before = (
        "cpu  9 9 9 9 9 9 9 9\ncpu0 100 0 50 1000 5 1 2 3 0 0\ncpu1 100 0 50 1000 5 1 2 3 0 0\ncpu10 1 1 1 1 1 1 1 1\nintr 5\n"
    )
    assert busy_seconds(before, {0}) == pytest.approx(1.56)  # ticks of 10 ms; idle and iowait do not count
    assert busy_seconds(before, {0, 1}) == pytest.approx(3.12)
    assert not is_disturbed(0.05, 1)
    assert is_disturbed(len(usable_cpus()), 1)


def test_no_compiler_no_peak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/no/such/cc")
    with pytest.raises(PeakError, match="no C compiler"):
        PeakMeter(tmp_path)
    monkeypatch.setenv("CC", "false")
    with pytest.raises(PeakError, match=r"false does not compile peak\.c"):
        PeakMeter(tmp_path)


def test_peak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    assert PeakMeter(tmp_path).measure(1) > 1e8  # a tenth of a multiply-accumulate per nanosecond: any computer's
