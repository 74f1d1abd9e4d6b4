"""Files of the regression corpus: a model that once showed a defect, and a line that says which.

``NAME.onnx`` or ``NAME.tflite`` is the file, minimized. ``NAME.json`` has `showed`, the defect in a
sentence, and what the file is to be run with.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np

from .mutants import Mutant, as_model
from .verdicts import Outcome, Verdict

DEATHS = (Verdict.CRASH, Verdict.HANG, Verdict.MEMORY)
"""Ends that only tell of the stack, with paths of the machine."""


def read(path: Path) -> Mutant:
    """Read a file of the corpus, or any model file, which then is run with what is drawn."""
    beside = path.with_suffix(".json")
    told: dict[str, Any] = json.loads(beside.read_text("utf-8")) if beside.exists() else {}
    feeds = {name: _array(entry) for name, entry in told.get("feeds", {}).items()}
    return Mutant(path.read_bytes(), feeds, told.get("luck", 0), told.get("hostile", 0.0), [path.name], path.suffix)


def write(folder: Path, name: str, mutant: Mutant, outcome: Outcome, origin: str) -> Path:
    """Write a finding; returns the model's path.

    Args:
        folder: Where to.
        name: Without a suffix.
        mutant: What showed it.
        outcome: What it showed.
        origin: Which mutant of which seed it was.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}{mutant.suffix}"
    path.write_bytes(mutant.data)
    model = as_model(mutant)
    inputs = {entry.name for entry in model.graph.input} if model else set()
    told = {
        "showed": outcome.signature if outcome.verdict in DEATHS else f"{outcome.signature}: {outcome.text[:300]}",
        "origin": origin,
        "luck": mutant.luck,
        "hostile": mutant.hostile,
        "feeds": {key: _data(value) for key, value in mutant.feeds.items() if key in inputs},
    }
    path.with_suffix(".json").write_text(json.dumps(told, ensure_ascii=True) + "\n", "utf-8")
    return path


def _data(value: np.ndarray) -> list[Any]:
    return [value.dtype.str, list(value.shape), base64.b64encode(value.tobytes()).decode()]


def _array(entry: list[Any]) -> np.ndarray:
    dtype, shape, data = entry
    return np.frombuffer(base64.b64decode(data), np.dtype(dtype)).reshape(shape)
