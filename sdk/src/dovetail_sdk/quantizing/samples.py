"""The data that a network is calibrated with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from .. import sounds
from ..feeding import InputSpec, feeds_for, load_npz
from ..pictures import SUFFIXES, PictureSettings

Arrays = Mapping[str, npt.NDArray[Any]]
Samples = Sequence[Callable[[], Arrays]]
"""What reads each sample: an array for each input."""


def read_samples(path: Path, specs: Sequence[InputSpec], settings: PictureSettings, count: int | None = None) -> Samples:
    """Find the samples: nothing but a .npz is read before a sample is asked for.

    Args:
        path: A .npz whose arrays are named after the inputs and have an axis of samples first, or a
            folder of files of one sample each, as `dovetail run` takes them.
        specs: The inputs of the network.
        settings: How pictures are read.
        count: So many at most, spread evenly over all; None for all.

    Raises:
        click.UsageError: There are no samples, or they do not fit the inputs.
    """
    if path.is_dir():
        found = _in_folder(path, specs, settings)
    elif path.suffix.lower() == ".npz":
        found = _in_archive(path, specs)
    else:
        raise click.UsageError(f"--calibration {path}: give a .npz of samples, or a folder of pictures, sounds, .npy or .npz")
    if not found:
        raise click.UsageError(f"--calibration {path}: there are no samples in it")
    if count is None or count >= len(found):
        return found
    return [found[index * len(found) // count] for index in range(count)]


def _in_folder(path: Path, specs: Sequence[InputSpec], settings: PictureSettings) -> Samples:
    suffixes = {*SUFFIXES, *sounds.SUFFIXES, ".npy", ".npz"}
    files = [file for file in sorted(path.iterdir()) if file.suffix.lower() in suffixes]
    return [partial(_file, file, specs, settings) for file in files]


def _file(path: Path, specs: Sequence[InputSpec], settings: PictureSettings) -> Arrays:
    arrays = feeds_for(specs, [str(path)], settings).arrays
    for name, array in arrays.items():
        _refuse_nan(path, name, array)
    return arrays


def _refuse_nan(path: Path, name: str, array: npt.NDArray[Any]) -> None:
    """Refuse what makes all that is computed NaN, too; infinities may be what masks are made of."""
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise click.UsageError(f"--calibration {path}: array {name!r} has elements that are no numbers (NaN)")


def _in_archive(path: Path, specs: Sequence[InputSpec]) -> Samples:
    arrays = load_npz(path)
    missing = [spec.name for spec in specs if spec.name not in arrays]
    if missing:
        raise click.UsageError(
            f"--calibration {path}: no array is named after input {missing[0]!r}; there are "
            f"{', '.join(map(repr, arrays)) or 'none'}"
        )
    parted = {spec.name: _parted(path, spec, arrays[spec.name]) for spec in specs}
    counts = {len(parts) for parts in parted.values()}
    if len(counts) > 1:
        raise click.UsageError(f"--calibration {path}: its arrays have different numbers of samples: {sorted(counts)}")
    return [partial(_sample, parted, index) for index in range(counts.pop())]


def _sample(parted: Mapping[str, Sequence[npt.NDArray[Any]]], index: int) -> Arrays:
    return {name: parts[index] for name, parts in parted.items()}


def _parted(path: Path, spec: InputSpec, array: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Cut an array into what the input takes, whose first axis may be that of the samples."""
    rank = len(spec.shape)
    if array.ndim == rank + 1:
        parts = list(array)
    elif rank and array.ndim == rank:
        size = spec.shape[0] if isinstance(spec.shape[0], int) else 1
        parts = [array[start : start + size] for start in range(0, len(array) - size + 1, size)] if size else []
    else:
        parts = []
    fits = all(_fits(part.shape, spec) for part in parts[:1])
    if not parts or not fits:
        shape = ", ".join(map(str, array.shape))
        raise click.UsageError(f"--calibration {path}: array {spec.name!r} [{shape}] holds no samples of input {spec}")
    if not np.can_cast(array.dtype, spec.dtype.numpy, "same_kind"):
        raise click.UsageError(f"--calibration {path}: array {spec.name!r} is {array.dtype}, input {spec}")
    _refuse_nan(path, spec.name, array)
    return [np.asarray(part, spec.dtype.numpy, order="C") for part in parts]  # of no axes, too


def _fits(shape: Sequence[int], spec: InputSpec) -> bool:
    return all(isinstance(wanted, str) or size == wanted for size, wanted in zip(shape, spec.shape, strict=True))


def sizes_of(samples: Samples, specs: Sequence[InputSpec]) -> dict[str, int]:
    """Return the sizes that the first sample gives to symbols."""
    first = samples[0]()
    return {
        symbol: size
        for spec in specs
        for symbol, size in zip(spec.shape, first[spec.name].shape, strict=True)
        if isinstance(symbol, str)
    }
