"""Cases are tried in batches whose size follows from how long cases take."""

from types import SimpleNamespace
from typing import Any

import pytest

from dovetail_sdk.conformance import trials
from dovetail_sdk.conformance.subject import Settings


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch):
    """Return the sizes of the batches in which so many cases are tried, if each takes so long."""

    def tried(count: int, seconds: float, cautious: bool = False) -> list[int]:
        now, batches = 0.0, []

        def try_batch(subject: Any, part: list[Any], passes: bool, tuned: Any) -> list[Any]:
            nonlocal now
            now += seconds * len(part)
            batches.append(len(part))
            return part

        monkeypatch.setattr(trials, "_try_batch", try_batch)
        monkeypatch.setattr(trials, "time", SimpleNamespace(monotonic=lambda: now))
        subject: Any = SimpleNamespace(
            settings=Settings(cautious=cautious), require_time=lambda text: None, step=lambda text: None
        )
        cases: Any = [SimpleNamespace(id=str(number)) for number in range(count)]
        assert list(trials.try_all(subject, cases, passes=False)) == cases
        return batches

    return tried


@pytest.mark.parametrize(
    ("count", "seconds", "expected"),
    [
        pytest.param(0, 0.01, [], id="nothing"),
        pytest.param(8, 0.01, [8], id="one batch"),
        pytest.param(140, 0.01, [8, 64, 64, 4], id="fast"),
        pytest.param(30, 15.0, [8, 8, 8, 6], id="slow"),
        pytest.param(11, 300.0, [8, 1, 1, 1], id="slower than a batch may be"),
        pytest.param(3, 0.0, [3], id="no time at all"),
    ],
)
def test_batches_take_no_longer_than_they_may(sizes, count, seconds, expected):
    assert sizes(count, seconds) == expected


def test_a_cautious_run_has_one_case_in_a_batch(sizes):
    assert sizes(3, 0.01, cautious=True) == [1, 1, 1]
