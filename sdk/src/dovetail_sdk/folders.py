"""Find the many files of an input: those of a folder, of a pattern, or named one by one."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from . import sounds
from .feeding import RANDOM, InputSpec, split_source
from .pictures import SUFFIXES

SAMPLES = frozenset({*SUFFIXES, *sounds.SUFFIXES, ".npy", ".npz"})
"""Suffixes of the files in a folder that are run."""


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
    return path.suffix.lower() in SAMPLES and not path.name.startswith(".") and is_file_or_dangling(path)


def is_file_or_dangling(path: Path) -> bool:
    """Say whether a path is a file, or a link to what is not there, which reading it tells."""
    return path.is_file() or (path.is_symlink() and not path.exists())
