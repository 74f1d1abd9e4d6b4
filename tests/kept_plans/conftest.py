"""Keep plans in a folder of each test, and count what is parsed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dovetail.loading import parsing, snapshots
from kept_plans.networks import convolutional, written


@pytest.fixture(autouse=True)
def keeping(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Keep plans in a folder of this test, of files that were just written, too."""
    monkeypatch.setenv("DOVETAIL_PLANS", "on")
    monkeypatch.setenv("DOVETAIL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(snapshots, "_SETTLED_NS", 0)
    return tmp_path / "cache" / "plans"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was parsed since, one entry for each time."""
    found: list[str] = []
    parse = parsing.parse

    def counted(path: str) -> Any:
        found.append(path)
        return parse(path)

    monkeypatch.setattr(parsing, "parse", counted)
    return found


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path / "model.onnx", convolutional())
