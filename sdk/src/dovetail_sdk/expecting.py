"""Compare the outputs of a run with those that are expected, as a file has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy.typing as npt

from .feeding import POSITIONAL_INPUTS, load_npy, load_npz
from .matching_files import matched
from .pairs import coarsest_float, is_quantized
from .verdicts import Comparison, Tolerance, Verdict

if TYPE_CHECKING:
    from dovetail import Network
    from dovetail.optimizer import TensorSpec

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

FILES = "files"
"""What the array is called that has the names of the files."""
_POSITIONAL = re.compile(r"(.+)_(\d{1,4})", re.ASCII)
"""What is called after the position of an output in the model: its set, and the position."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Outputs that are expected.

    Attributes:
        path: The file.
        sets: Arrays by output. Several sets are what several runtimes gave: the outputs have to be
            as those of one of them.
        files: What they are of, one behind the other, if that is told.
    """

    path: Path
    sets: Mapping[str, Arrays]
    files: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path, outputs: Sequence[TensorSpec], inputs: Sequence[str] = ()) -> Expected:
        """Read a .npz whose arrays are named after the outputs, or a .npy of the only output.

        Arrays of a .npz may also be called after the positions of outputs, such as out_0 and out_1,
        or ref_0 and fast_0 for several sets. Inputs in it are left out, and so are texts but the
        names of files, as `many_runs.Stack` has them.

        Args:
            path: The file.
            outputs: Of the network.
            inputs: Names of its inputs.

        Raises:
            click.UsageError: Names or types are not those of the outputs.
        """
        sets = _sets(path, [spec.name for spec in outputs], inputs)
        wrong = {name: _wrong_type(outputs, arrays) for name, arrays in sets.items()}
        if all(wrong.values()):
            raise click.UsageError(f"--expect {path} {next(iter(wrong.values()))}")
        fitting = {name: arrays for name, arrays in sets.items() if not wrong[name]}
        return cls(path, fitting, _files(path, [spec.name for spec in outputs], fitting))

    def compare_files(
        self,
        outputs: Sequence[TensorSpec],
        files: Sequence[Path],
        results: Arrays,
        network: Network,
        tolerance: Tolerance,
    ) -> Comparison:
        """Compare the outputs of many files, each with what is expected of the file of its name.

        Where names are not told, the order decides.

        Args:
            outputs: Of the network.
            files: Those that ran.
            results: Their outputs, one behind the other.
            network: The network.
            tolerance: What is allowed.
        """
        names = [str(path) for path in files]
        if not files:
            return Comparison(self.path, "", [], failure="no file ran, so that there is nothing to compare")
        if not self.files:
            return replace(self.compare(outputs, results, network, tolerance), files=names)
        places = matched(self.files, names)
        known = [(at, place) for at, place in enumerate(places) if place is not None]
        chosen, rows = [at for at, _ in known], [place for _, place in known]
        ran = {self.files[place] for place in rows}
        not_run = [name for name in dict.fromkeys(self.files) if name not in ran]
        not_expected = [name for name, place in zip(names, places, strict=True) if place is None]
        if known:
            sets = {key: {name: array[rows] for name, array in arrays.items()} for key, arrays in self.sets.items()}
            some = {name: array[chosen] for name, array in results.items()}
            compared = Expected(self.path, sets).compare(outputs, some, network, tolerance)
        else:
            compared = Comparison(self.path, "", [], failure=f"none of the files that ran is in {self.path}")
        return replace(compared, files=[names[at] for at in chosen], not_run=not_run, not_expected=not_expected)

    def compare(self, outputs: Sequence[TensorSpec], results: Arrays, network: Network, tolerance: Tolerance) -> Comparison:
        """Compare the outputs with the set that is nearest."""
        fitting = {
            name: arrays
            for name, arrays in self.sets.items()
            if all(arrays[spec.name].shape == results[spec.name].shape for spec in outputs)
        }
        if not fitting:
            arrays = next(iter(self.sets.values()))
            other = next(spec.name for spec in outputs if arrays[spec.name].shape != results[spec.name].shape)
            found, wanted = (list(held[other].shape) for held in (results, arrays))
            failure = f"output {other!r} has the shape {found}, but {self.path} has {wanted} for it"
            return Comparison(self.path, "", [], failure=failure)
        held, quantized = coarsest_float(network), is_quantized(network)
        compared = [
            Comparison(
                self.path,
                name if len(self.sets) > 1 else "",
                [Verdict.of(spec, arrays[spec.name], results[spec.name], tolerance, held, quantized) for spec in outputs],
            )
            for name, arrays in fitting.items()
        ]
        return min(compared, key=lambda one: (one.beyond, sum(verdict.beyond for verdict in one.verdicts), one.worst))


def _files(path: Path, outputs: Sequence[str], sets: Mapping[str, Arrays]) -> tuple[str, ...]:
    """Return the names of the files that the outputs in a .npz are of; empty if it has none."""
    if path.suffix.lower() != ".npz":
        return ()
    found = load_npz(path).get(files_key(outputs))
    if found is None or found.dtype.kind != "U" or found.ndim != 1:
        return ()
    is_of_files = all(array.shape[:1] == found.shape for arrays in sets.values() for array in arrays.values())
    return tuple(map(str, found)) if is_of_files else ()


def files_key(outputs: Iterable[str]) -> str:
    """Return what the array with the names of the files is called beside the outputs."""
    key, taken = FILES, {*outputs}
    while key in taken:
        key += "_"
    return key


def _sets(path: Path, outputs: Sequence[str], inputs: Sequence[str]) -> dict[str, Arrays]:
    if path.suffix.lower() == ".npy":
        if len(outputs) != 1:
            raise click.UsageError(f"--expect {path} has one array, the network {len(outputs)} outputs: give a .npz")
        return {"": {outputs[0]: load_npy(path)}}
    if path.suffix.lower() != ".npz":
        raise click.UsageError(f"--expect {path}: the suffix must be .npz or .npy")
    arrays = {name: array for name, array in load_npz(path).items() if array.dtype.kind in "biufc"}
    missing = [name for name in outputs if name not in arrays]
    if not missing:
        return {"": {name: arrays[name] for name in outputs}}
    positional: dict[str, dict[int, Array]] = {}
    for name, array in arrays.items():
        match = _POSITIONAL.fullmatch(name)
        if match and match[1] not in POSITIONAL_INPUTS:
            positional.setdefault(match[1], {})[int(match[2])] = array
    whole = {name: found for name, found in positional.items() if sorted(found) == list(range(len(outputs)))}
    if whole and len(missing) == len(outputs):
        return {name: {output: found[at] for at, output in enumerate(outputs)} for name, found in whole.items()}
    left = [array for name, array in arrays.items() if name not in inputs]
    if len(outputs) == len(left) == 1:
        return {"": {outputs[0]: left[0]}}
    raise click.UsageError(
        f"--expect {path} has no array for output{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))}; it has "
        f"{', '.join(map(repr, arrays)) or 'none'}: name the arrays as the outputs, or out_0, out_1 in their order"
    )


def _wrong_type(outputs: Sequence[TensorSpec], arrays: Arrays) -> str:
    """Say which array has a type that its output is not compared with; empty if none has."""
    for spec in outputs:
        found = arrays[spec.name].dtype
        is_real = spec.dtype.is_float or spec.quantization is not None
        if found != spec.dtype.numpy and not (found.kind == "f" and is_real):
            also = " or floats" if is_real else ""
            return f"has {found} for output {spec.name!r}, which is {spec.dtype}: it may have that{also}"
    return ""
