"""Run a network on each of many files: those of a folder, of a pattern, or named one by one."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from dovetail.ground.foreign_text import printable

from . import sounds
from .feeding import RANDOM, Feeds, InputSpec, split_source
from .pictures import SUFFIXES, UnreadableFile

if TYPE_CHECKING:
    from .answers import Answers
    from .detections import Detection

Array = npt.NDArray[Any]

SAMPLES = frozenset({*SUFFIXES, *sounds.SUFFIXES, ".npy", ".npz"})
"""Suffixes of the files in a folder that are run."""

FILES = "files"
"""What the array is called that has the names of the files."""


@dataclass(frozen=True, slots=True)
class ManyFiles:
    """The files that one input is to be, one after the other.

    Attributes:
        input: Its name; None where each file says what it is for.
        files: The files.
        others: What the other inputs are, as for `feeding.feeds_for`.
    """

    input: str | None
    files: tuple[Path, ...]
    others: tuple[str, ...]

    def texts(self, path: Path) -> list[str]:
        """Return all inputs for one of the files, as for `feeding.feeds_for`."""
        return [*self.others, str(path) if self.input is None else f"{self.input}={path}"]


def find_many(specs: Sequence[InputSpec], texts: Sequence[str]) -> ManyFiles | None:
    """Find the input that is given many files: by a folder, a pattern, or one by one.

    Args:
        specs: The inputs of the network.
        texts: What is given, as for `feeding.feeds_for`; a source may be a folder or a pattern,
            such as ``photos/**/*.jpg``, too.

    Returns:
        None if there is none.

    Raises:
        click.UsageError: A folder or a pattern has no files, or several inputs have many.
    """
    by_name = {spec.name: spec for spec in specs}
    files: dict[str | None, list[Path]] = {}
    given: dict[str | None, list[str]] = {}
    has_many: set[str | None] = set()
    for text in texts:
        name, source = _split(text, by_name)
        found = _expanded(source)
        if found is not None:
            has_many.add(name)
        given.setdefault(name, []).append(text)
        if found or Path(source).suffix.lower() in SAMPLES:
            files.setdefault(name, []).extend(found or [Path(source)])
    for name, texts_of in given.items():
        is_one_input = name is not None or len(specs) == 1
        if is_one_input and len(texts_of) > 1 and len(files.get(name, ())) >= len(texts_of):
            has_many.add(name)
    if not has_many:
        return None
    if len(has_many) > 1:
        raise click.UsageError(f"several inputs are given many files: {', '.join(sorted(map(repr, has_many)))}; one may be")
    (many,) = has_many
    others = tuple(text for name, texts_of in given.items() for text in texts_of if name != many or text == RANDOM)
    if many is None and len(specs) > 1:
        named = {name for name in given if name is not None}
        left = [spec.name for spec in specs if spec.name not in named]
        if len(left) == 1:
            many = left[0]
        elif not all(path.suffix.lower() == ".npz" for path in files[None]):
            names = ", ".join(map(repr, left)) or "none"
            raise click.UsageError(f"which input are the files for? Write --input NAME=FOLDER; still open: {names}")
    return ManyFiles(many, tuple(files[next(iter(has_many))]), others)


def _split(text: str, by_name: Mapping[str, InputSpec]) -> tuple[str | None, str]:
    """Part a text as `split_source` does; a pattern need not exist."""
    is_named = any(text.startswith(f"{name}=") for name in by_name)
    if not is_named and glob.has_magic(text) and not Path(text).exists():
        return None, text
    return split_source(text, by_name)


def _expanded(source: str) -> list[Path] | None:
    """List the files of a folder or a pattern, sorted; None for any other source.

    Raises:
        click.UsageError: There are none.
    """
    path = Path(source)
    if path.is_dir():
        found = [file for file in sorted(path.iterdir()) if _is_sample(file)]
        if not found:
            within = f"; for those in folders below it, write --input '{path}/**/*.jpg'"
            raise click.UsageError(f"folder {source} has no pictures, sounds, .npy or .npz in it{within}")
        return found
    if path.exists() or not glob.has_magic(source):
        return None
    found = [Path(name) for name in sorted(glob.glob(source, recursive=True)) if _is_sample(Path(name))]
    if not found:
        raise click.UsageError(f"no pictures, sounds, .npy or .npz match {source}")
    return found


def _is_sample(path: Path) -> bool:
    return path.suffix.lower() in SAMPLES and not path.name.startswith(".") and path.is_file()


@dataclass(slots=True)
class Outcome:
    """What came of one file.

    Attributes:
        path: The file.
        error: Why there is nothing; empty if there is.
        answers: The best classes of the outputs that have classes.
        detections: What a detector found; None without one.
        seconds: What the run took, without reading the file.
    """

    path: Path
    error: str = ""
    answers: Sequence[Answers] = ()
    detections: Sequence[Detection] | None = None
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        if self.error:
            return {"file": str(self.path), "error": self.error}
        document: dict[str, Any] = {
            "file": str(self.path),
            "seconds": self.seconds,
            "outputs": [one.as_dict() for one in self.answers],
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
                raise UnreadableFile(f"its output {name!r} is {shapes}: they do not go into one array")
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
        key = FILES
        while key in arrays:
            key += "_"
        return arrays | {key: np.array([str(path) for path in self.files], np.str_)}


class Lines:
    """Lays out a line for each file.

    Args:
        files: All files.
        kind: What the scores are; empty without classes.
        width: Columns that a line may have.
    """

    def __init__(self, files: Sequence[Path], kind: str, width: int) -> None:
        folders = {path.parent for path in files}
        self._names = {path: printable(path.name if len(folders) == 1 else str(path)) for path in files}
        self._kind = kind
        self._room = width
        self._wide = min(max(len("file"), *map(len, self._names.values())), max(16, width // 3))

    @property
    def heading(self) -> str:
        """The line above the others."""
        return self._line("file", self._kind, "class") if self._kind else ""

    def of(self, outcome: Outcome) -> list[str]:
        """Return the line of a file; several if several classes or outputs are to be shown."""
        from .rendering import shortened

        name = shortened(self._names[outcome.path], self._wide)
        if outcome.error:
            return [f"{name:<{self._wide}}  failed: {outcome.error}"]
        if outcome.detections is not None:
            found = ", ".join(f"{one.label} {one.score:.2f}" for one in outcome.detections) or "nothing"
            return [self._cut(f"{name:<{self._wide}}  {found}")]
        several = len(outcome.answers) > 1
        lines: list[str] = []
        for answers in outcome.answers:
            for row in answers.rows:
                for answer in row:
                    label = answer.label or f"class {answer.number}"
                    lines.append(
                        self._line(
                            "" if lines else name, f"{answer.score:.4g}", f"{answers.output}: {label}" if several else label
                        )
                    )
        return lines or [f"{name:<{self._wide}}  {outcome.seconds * 1e3:.3g} ms"]

    def _line(self, name: str, score: str, label: str) -> str:
        return self._cut(f"{name:<{self._wide}}  {score:>{max(10, len(self._kind))}}  {label}")

    def _cut(self, line: str) -> str:
        from .rendering import cut

        return cut(line.rstrip(), self._room)


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
        return [*lines, f"{len(failed)} failed: {', '.join(str(one.path) for one in failed)}"] if failed else lines

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "files": [one.as_dict() for one in self.outcomes],
            "failed": len(self.failed),
            "seconds": self.seconds,
            "files_per_second": self.rate,
        }


def run_each(
    many: ManyFiles,
    feed: Callable[[Sequence[str]], Feeds],
    run: Callable[[Mapping[str, Array]], Mapping[str, Array]],
    understand: Callable[[Outcome, Mapping[str, Array]], None],
    done: Callable[[Outcome], None],
) -> Tally:
    """Run a network on each of many files; one that cannot be read or run does not end it.

    Args:
        many: The files.
        feed: Reads all inputs.
        run: Runs the network.
        understand: Puts what outputs say into the outcome.
        done: Called after each file.

    Raises:
        click.UsageError: What is given would not do for any file.
    """
    from dovetail import DovetailError

    tally = Tally()
    is_alike = len({_kind(path) for path in many.files}) == 1
    begin = perf_counter()
    for path in many.files:
        outcome = Outcome(path)
        try:
            feeds = feed(many.texts(path))
            started = perf_counter()
            results = run(feeds.arrays)
            outcome.seconds = perf_counter() - started
            understand(outcome, results)
        except (click.UsageError, DovetailError, OSError) as error:
            if isinstance(error, click.UsageError) and not isinstance(error, UnreadableFile) and is_alike and not tally.ran:
                raise
            outcome = Outcome(path, _reason(error, path))
        tally.outcomes.append(outcome)
        done(outcome)
    tally.seconds = perf_counter() - begin
    return tally


def _kind(path: Path) -> str:
    suffix = path.suffix.lower()
    return "picture" if suffix in SUFFIXES else "sound" if suffix in sounds.SUFFIXES else suffix


def _reason(error: Exception, path: Path) -> str:
    """Say in one line why a file failed, without its name."""
    message = getattr(error, "message", None) or (isinstance(error, OSError) and error.strerror) or str(error)
    return " ".join(str(message).removeprefix(os.fspath(path)).split())
