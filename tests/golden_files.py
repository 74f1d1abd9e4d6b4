"""Golden outputs of models that lie beside the project, in `../shared/models`, where it is there.

A file ``<model>.<case>.golden.npz`` holds the inputs ``in_<i>`` of a model and the outputs that
other runtimes gave, in sets: ``ref_<i>`` is LiteRT's reference kernels, ``opt_<i>`` its optimized
ones, ``xnn_<i>`` those of XNNPACK. A file ``<folder>.golden.npz`` holds many models of one operator
each, with ``<model>/`` before these names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MODELS = Path(__file__).resolve().parents[2] / "shared" / "models"
ABSENT = "there are no models in ../shared/models"
_SETS = ("ref", "opt", "xnn", "tflm")


class Golden(NamedTuple):
    """A model with inputs and outputs.

    Attributes:
        name: What to call the case.
        model: Its file.
        inputs: In the order of the model's.
        outputs: By set, in the order of the model's.
        tolerance: Of floats, on top of what rounding explains: what the sets differ by themselves.
        one_operator: True if it holds one operator, which is then judged the more strictly.
    """

    name: str
    model: Path
    inputs: list[np.ndarray]
    outputs: dict[str, list[np.ndarray]]
    tolerance: float
    one_operator: bool


def of_networks(suffix: str) -> list[str]:
    """List the golden files of whole networks, by their places in the folder of models."""
    found = []
    for path in sorted(MODELS.glob("*/*.golden.npz")) if MODELS.is_dir() else ():
        with np.load(path) as held:
            if "meta" in held.files and json.loads(str(held["meta"]))["model"].endswith(suffix):
                found.append(str(path.relative_to(MODELS)))
    return found


def of_operators(folder: Path) -> list[str]:
    """List the models of one operator each that a folder has golden outputs of."""
    bundle = folder.with_name(f"{folder.name}.golden.npz")
    if not bundle.is_file():
        return []
    with np.load(bundle) as held:
        return sorted({name.rpartition("/")[0] for name in held.files})


def network(name: str) -> Golden:
    """Read the golden file of a whole network."""
    path = MODELS / name
    with np.load(path) as held:
        arrays = {name: held[name] for name in held.files}
    meta = json.loads(str(arrays["meta"]))
    return _golden(path.name.removesuffix(".golden.npz"), path.parent / meta["model"], arrays, one_operator=False)


def operator(folder: Path, name: str) -> Golden:
    """Read the golden outputs of a model of one operator."""
    return _golden(name, folder / f"{name}.tflite", _bundle(folder)[name], one_operator=True)


@cache
def _bundle(folder: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    with np.load(folder.with_name(f"{folder.name}.golden.npz")) as held:
        for key in held.files:
            name, _, part = key.rpartition("/")
            found.setdefault(name, {})[part] = held[key]
    return found


def _golden(name: str, model: Path, arrays: dict[str, Any], *, one_operator: bool) -> Golden:
    meta = json.loads(str(arrays["meta"]))
    outputs = {known: _in_order(arrays, known) for known in _SETS}
    outputs = {known: found for known, found in outputs.items() if found}
    return Golden(name, model, _in_order(arrays, "in"), outputs, meta.get("tol", 0.0), one_operator)


def _in_order(arrays: dict[str, Any], prefix: str) -> list[np.ndarray]:
    def numbered() -> Iterator[np.ndarray]:
        index = 0
        while f"{prefix}_{index}" in arrays:
            yield arrays[f"{prefix}_{index}"]
            index += 1

    return list(numbered())


def difference(got: list[np.ndarray], golden: Golden) -> str:
    """Say how results differ from each set; empty if they agree with one."""
    found = {known: _of_set(got, wanted, golden) for known, wanted in golden.outputs.items()}
    return "" if "" in found.values() else "; ".join(f"{known}: {what}" for known, what in found.items())


def _of_set(got: list[np.ndarray], wanted: list[np.ndarray], golden: Golden) -> str:
    if len(got) != len(wanted):
        return f"{len(got)} outputs, not {len(wanted)}"
    parts = [_of_output(a, b, golden) for a, b in zip(got, wanted, strict=True)]
    return "; ".join(f"output {index}: {what}" for index, what in enumerate(parts) if what)


def _of_output(got: np.ndarray, wanted: np.ndarray, golden: Golden) -> str:
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    if not wanted.size:
        return ""
    if wanted.dtype.kind == "f":
        return _of_floats(got.astype(np.float64), wanted.astype(np.float64), golden.tolerance, wanted.itemsize)
    if wanted.dtype.kind in "iu" and wanted.itemsize <= 2:
        return _of_steps(got, wanted, one_operator=golden.one_operator)
    return "" if (got == wanted).all() else f"{(got != wanted).sum()} of {wanted.size} differ"


def _of_floats(got: np.ndarray, wanted: np.ndarray, tolerance: float, itemsize: int) -> str:
    if (np.isnan(got) != np.isnan(wanted)).any():
        return "NaN in other places"
    got, wanted = np.nan_to_num(got), np.nan_to_num(wanted)
    room = max(1e-4, tolerance) * max(1.0, np.abs(wanted).max()) + 1e-3 * np.abs(wanted)
    error = np.abs(got - wanted)
    return "" if (error <= room * (10 if itemsize == 2 else 1)).all() else f"differs by {error.max():.3g}"


def _of_steps(got: np.ndarray, wanted: np.ndarray, *, one_operator: bool) -> str:
    """Judge quantized numbers by the steps that they differ by.

    One operator may differ by one. Through a network steps add up: few elements may then differ by
    three, or the class that is the most likely must be the same.
    """
    steps = np.abs(got.astype(np.int64) - wanted.astype(np.int64))
    most, share = steps.max(), (steps > 1).mean()
    same_class = wanted.ndim == 2 and got.argmax() == wanted.argmax() and most <= 8
    agrees = most <= 1 if one_operator else (most <= 3 and share <= 0.01) or same_class
    return "" if agrees else f"differs by {most} steps, {100 * share:.2f} % of the elements by more than one"
