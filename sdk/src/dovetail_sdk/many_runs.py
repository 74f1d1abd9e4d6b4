"""Run a network on each of many files, and keep what comes of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from dovetail.ground.foreign_text import printable

from . import sounds
from .expecting import files_key
from .feeding import Feeds
from .folders import ManyFiles
from .pictures import SUFFIXES, UnfitKind, UnreadableFile, decoded_bytes
from .reading_ahead import in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .answers import Answers
    from .detections import Detection

Array = npt.NDArray[Any]


@dataclass(slots=True)
class Outcome:
    """What came of one file.

    Attributes:
        path: The file.
        error: Why there is nothing; empty if there is.
        answers: The best classes of the outputs that have classes.
        detections: What a detector found; None without one.
        nan: How many elements are no numbers (NaN), of how many, by output that has such.
        seconds: What the run took, without reading the file.
    """

    path: Path
    error: str = ""
    answers: Sequence[Answers] = ()
    detections: Sequence[Detection] | None = None
    nan: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def notes(self) -> list[str]:
        """What is to be told beside its answer."""
        return [
            f"output {name!r}: {count} of {size} elements {'are' if count > 1 else 'is'} NaN"
            for name, (count, size) in self.nan.items()
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        if self.error:
            return {"file": str(self.path), "error": self.error}
        document: dict[str, Any] = {
            "file": str(self.path),
            "seconds": self.seconds,
            "outputs": [one.as_dict() for one in self.answers],
            "nan": {name: count for name, (count, _) in self.nan.items()},
        }
        return document if self.detections is None else document | {"detections": [one.as_dict() for one in self.detections]}


@dataclass(slots=True)
class Stack:
    """The outputs of all files so far, one behind the other.

    Attributes:
        files: Those that ran.
        arrays: By output, of each file.
    """

    files: list[Path] = field(default_factory=list)
    arrays: dict[str, list[Array]] = field(default_factory=dict)

    def add(self, path: Path, results: Mapping[str, Array]) -> None:
        """Take the outputs of another file.

        Raises:
            UnreadableFile: One has another shape than before.
        """
        for name, array in results.items():
            before = self.arrays.get(name)
            if before and before[0].shape != array.shape:
                shapes = f"{list(array.shape)}, and {list(before[0].shape)} of {self.files[0]}"
                raise UnreadableFile(path, f"its output {name!r} is {shapes}: they do not go into one array")
        for name, array in results.items():
            self.arrays.setdefault(name, []).append(array)
        self.files.append(path)

    def stacked(self) -> dict[str, Array]:
        """Return the outputs: along their first axis where that has one picture, else a new one."""
        return {
            name: np.concatenate(found) if found[0].ndim and found[0].shape[0] == 1 else np.stack(found)
            for name, found in self.arrays.items()
        }

    def with_files(self) -> dict[str, Array]:
        """Return the outputs and, as texts, the names of the files in the same order."""
        arrays = self.stacked()
        return arrays | {files_key(arrays): np.array([str(path) for path in self.files], np.str_)}


@dataclass(slots=True)
class Tally:
    """What became of all files.

    Attributes:
        outcomes: Of each file.
        seconds: What all took, with reading the files.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def failed(self) -> list[Outcome]:
        """Those of which nothing came."""
        return [one for one in self.outcomes if one.error]

    @property
    def without_numbers(self) -> list[Outcome]:
        """Those that ran, and gave NaN."""
        return [one for one in self.outcomes if one.nan]

    @property
    def ran(self) -> int:
        """How many files ran."""
        return len(self.outcomes) - len(self.failed)

    @property
    def rate(self) -> float:
        """Files a second that ran."""
        return self.ran / self.seconds if self.seconds else 0.0

    @property
    def sentences(self) -> list[str]:
        """Sum it up."""
        from .rendering import seconds_text

        count, failed = len(self.outcomes), self.failed
        running = sum(one.seconds for one in self.outcomes)
        lines = [
            f"{self.ran} of {count} files in {seconds_text(self.seconds)}, {self.rate:.3g} a second; "
            f"{seconds_text(running)} of it in the network"
        ]
        for told, outcomes in (("gave NaN", self.without_numbers), ("failed", failed)):
            if outcomes:
                lines.append(f"{len(outcomes)} {told}: {', '.join(printable(str(one.path)) for one in outcomes)}")
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "files": [one.as_dict() for one in self.outcomes],
            "failed": len(self.failed),
            "nan": len(self.without_numbers),
            "seconds": self.seconds,
            "files_per_second": self.rate,
        }


def run_each(
    many: ManyFiles,
    read: Callable[[Sequence[str]], Feeds],
    run: Callable[[Feeds], Mapping[str, Array]],
    understand: Callable[[Outcome, Mapping[str, Array]], None],
    done: Callable[[Outcome], None],
    threads: int = 1,
    settled: Container[str] = (),
    *,
    is_resized: bool = False,
) -> Tally:
    """Run a network on each of many files; one that cannot be read or run does not end it.

    Args:
        many: The files.
        read: Reads all inputs, in any thread.
        run: Runs the network.
        understand: Puts what outputs say into the outcome.
        done: Called after each file.
        threads: CPU threads that may read pictures ahead.
        settled: Inputs whose shapes and types no file decides.
        is_resized: Whether the input has a size that pictures are brought to.

    Raises:
        click.UsageError: What is given would not do for any of the files.
        DovetailError: An input beside them does not fit.
        OSError: A file beside them cannot be read.
    """
    from dovetail import DovetailError

    tally = Tally()
    kinds = {_kind(path) for path in many.files}
    refused: set[str] = set()
    begin = perf_counter()
    size_of = partial(decoded_bytes, is_resized=is_resized)
    with closing(in_order(many.files, lambda path: read(many.texts(path)), threads, size_of)) as files:
        for path, take in files:
            outcome = Outcome(path)
            try:
                feeds = take()
                started = perf_counter()
                results = run(feeds)
                outcome.seconds = perf_counter() - started
                understand(outcome, results)
            except (click.UsageError, DovetailError, OSError) as error:
                if isinstance(error, UnfitKind):
                    refused.add(_kind(path))
                if refused == kinds or _is_of_another(error, path, settled):
                    raise
                outcome = Outcome(path, _reason(error, path))
            tally.outcomes.append(outcome)
            done(outcome)
    tally.seconds = perf_counter() - begin
    return tally


def _kind(path: Path) -> str:
    suffix = path.suffix.lower()
    return "picture" if suffix in SUFFIXES else "sound" if suffix in sounds.SUFFIXES else suffix


def _is_of_another(error: Exception, path: Path, settled: Container[str]) -> bool:
    """Say whether an error is about something beside the file, which is the same for all files."""
    from dovetail import InputError

    if isinstance(error, UnreadableFile):
        return error.path != path
    if isinstance(error, click.UsageError):
        return not isinstance(error, UnfitKind)
    if isinstance(error, OSError):
        return error.filename is not None and Path(os.fsdecode(error.filename)) != path
    return isinstance(error, InputError) and error.details.get("name") in settled


def _reason(error: Exception, path: Path) -> str:
    """Say in one line why a file failed, without its name."""
    message = getattr(error, "message", None) or (isinstance(error, OSError) and error.strerror) or str(error)
    return " ".join(str(message).removeprefix(os.fspath(path)).split())
