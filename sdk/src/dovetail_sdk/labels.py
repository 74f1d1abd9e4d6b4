"""Names of classes: the files that list them, and whether they are those of a network."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dovetail import Network

    from .detections import Detector

FORMS = (
    "one name a line, '0 name' or 'n01440764 name'; JSON or Python: a list of names, or a dict of numbers and names; "
    ".csv: a column of names, and one of numbers"
)
"""What a file of labels may look like."""

_NUMBERED = re.compile(r"(\d{1,7})(?:\s*[:,;]\s*|\s+)(\S.*)", re.ASCII)
_SYNSET = re.compile(r"n\d{8}\s+(\S.*)", re.ASCII)
"""A line that begins with a number of WordNet, as lists of ImageNet's classes do."""
_WITHIN = ("id2label", "names", "labels", "class_names", "classes", "categories", "label2id")
"""Keys of larger JSON files below which names of classes lie."""
_NAME_COLUMNS = ("display_name", "name", "label", "class_name", "class", "title")
_NUMBER_COLUMNS = ("index", "id", "class_id", "class_index", "number", "idx")
_GAPS = 1000
"""Numbers of classes without a name, beyond one for each name."""


def read_labels(path: Path) -> tuple[str, ...]:
    """Read a file of labels; a class that it does not name has an empty one.

    Raises:
        click.UsageError: It lists no names in any of `FORMS`.
    """
    text = path.read_text("utf-8-sig", "replace")
    if path.suffix.lower() in (".csv", ".tsv"):
        found = _of_table(text, "\t" if path.suffix.lower() == ".tsv" else ",")
    elif path.suffix.lower() == ".json" or text.lstrip()[:1] in ("{", "["):
        found = _of_document(_parsed(text))
    else:
        found = of_lines(text.splitlines())
    if not any(found or ()):
        raise click.UsageError(f"--labels {path}: there are no names of classes in it; it may have {FORMS}")
    return tuple(found or ())


def of_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the names that lines list, without numbers of classes or of WordNet before them."""
    names = [line.strip() for line in lines]
    while names and not names[-1]:
        names.pop()
    numbered = [_NUMBERED.fullmatch(name) for name in names if name]
    if numbered and all(numbered):
        by_number = {int(match[1]): match[2] for match in numbered if match}
        if len(by_number) == len(numbered) and max(by_number) < 2 * len(numbered) + 10:  # years, sizes and such are names
            names = list(_in_order(by_number) or ())
    synsets = [_SYNSET.fullmatch(name) for name in names]
    return tuple(match[1] for match in synsets if match) if all(synsets) else tuple(names)


def _in_order(named: Mapping[int, str]) -> tuple[str, ...] | None:
    """Put names in the order of their classes; None if far too many have none."""
    count = max(named, default=-1) + 1
    if min(named, default=0) < 0 or count > 2 * len(named) + _GAPS:
        return None
    return tuple(named.get(number, "") for number in range(count))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _of_document(found: Any) -> tuple[str, ...] | None:
    """Return the names in what JSON holds; None if there are none."""
    if isinstance(found, list):
        if found and all(isinstance(entry, Mapping) for entry in found):
            return _of_entries(found)
        names = [_name(entry) for entry in found]
        return None if None in names else tuple(name for name in names if name is not None)
    if not isinstance(found, Mapping):
        return None
    for key in _WITHIN:
        if isinstance(found.get(key), Mapping | list):
            return _of_document(found[key])
    numbers = {_number(key): _name(value) for key, value in found.items()}
    if None in numbers or None in numbers.values():
        numbers = {_number(value): str(key) for key, value in found.items()}
    if None in numbers or len(numbers) != len(found):
        return None
    return _in_order({int(number): str(name) for number, name in numbers.items() if number is not None})


def _of_entries(entries: Sequence[Mapping[str, Any]]) -> tuple[str, ...] | None:
    """Return the names of a list of objects, each with a name and, perhaps, a number."""
    names = [_name(next((entry[key] for key in _NAME_COLUMNS if key in entry), None)) for entry in entries]
    numbers = [_number(next((entry[key] for key in _NUMBER_COLUMNS if key in entry), None)) for entry in entries]
    if None in names:
        return None
    if None in numbers:
        return tuple(str(name) for name in names)
    by_number = {int(number): str(name) for number, name in zip(numbers, names, strict=True) if number is not None}
    return _in_order(by_number) if len(by_number) == len(entries) else None


def _name(value: Any) -> str | None:
    """Return a name; of several, such as Keras writes for ImageNet, the last."""
    if isinstance(value, list | tuple) and value:
        value = value[-1]
    return value.strip() if isinstance(value, str) else None


def _number(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return int(value) if re.fullmatch(r"\s*\d{1,9}\s*", str(value), re.ASCII) else None


def _of_table(text: str, delimiter: str) -> tuple[str, ...] | None:
    """Return the names in a table, with or without headings."""
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text), delimiter=delimiter) if any(row)]
    except csv.Error:  # a cell is longer than a name may be
        return None
    width = max(map(len, rows), default=0)
    if not width or min(map(len, rows)) < width:
        return None
    headings = [heading.lower() for heading in rows[0]]
    name_at = next((headings.index(name) for name in _NAME_COLUMNS if name in headings), None)
    number_at = next((headings.index(name) for name in _NUMBER_COLUMNS if name in headings), None)
    if name_at is not None or number_at is not None:
        rows = rows[1:]
    elif width > 1 and len(rows) > 1 and _number(rows[0][0]) is None and all(_number(row[0]) is not None for row in rows[1:]):
        rows = rows[1:]  # of headings that are none of these
    if number_at is None and width > 1 and all(_number(row[0]) is not None for row in rows):
        number_at = 0
    if name_at is None:
        name_at = next(at for at in reversed(range(width)) if at != number_at or width == 1)
    if number_at is None or number_at == name_at:
        return tuple(row[name_at] for row in rows)
    by_number = {number: row[name_at] for row in rows if (number := _number(row[number_at])) is not None}
    return _in_order(by_number) if len(by_number) == len(rows) else None


def _printable(names: Sequence[str]) -> tuple[str, ...]:
    """Put each name on one line, without what would control a terminal."""
    return tuple("".join(one if one.isprintable() else "?" for one in " ".join(name.split())) for name in names)


class ClassNames:
    """The names of the classes of a network's outputs.

    Args:
        network: The network, which may have names of its own.
        detector: The detector that it ends with, if it does.
        path: The file that names classes; None for what the network says.
        offset: The class that the first label belongs to.

    Raises:
        click.UsageError: The file cannot be read as labels, or there are none for an offset.
    """

    def __init__(self, network: Network, detector: Detector | None, path: Path | None, offset: int) -> None:
        self._detector = detector
        self._offset = offset
        self._path = path
        given = None if path is None else _printable(read_labels(path))
        self._held = {
            layer.name: given if given is not None else _printable(of_lines(network.meanings[layer.name].labels))
            for layer in network.outputs
            if given is not None or layer.name in network.meanings
        }
        if offset and not any(self._held.values()):
            raise click.UsageError(f"--label-offset {offset}: the model names no classes; give their names by --labels")
        self.notes: list[str] = []

    def of(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[str, ...]]:
        """Return the names for each output that has so many classes; `notes` tell of others.

        Args:
            shapes: Of the outputs.

        Raises:
            click.UsageError: A file was given, and no output has so many classes.
        """
        from .answers import class_count

        found, misfits = {}, []
        for name, labels in self._held.items():
            if name not in shapes:  # what the network remembers is no output of a run
                continue
            counts = self._counts_of(name, class_count(shapes[name]))
            placed = ("",) * self._offset + labels[max(0, -self._offset) :] if labels else ()
            if len(placed) in counts:
                found[name] = placed
            elif counts and placed:
                misfits.append(self._misfit(name, len(labels), len(placed), counts[0]))
        if self._path is not None and not found:
            raise click.UsageError(misfits[0] if misfits else f"--labels {self._path}: no output of the network has classes")
        self.notes = [] if found else misfits[:1]
        return found

    def _counts_of(self, name: str, count: int | None) -> tuple[int, ...]:
        """Return how many labels may be right for an output; none if it is none of classes."""
        if self._detector is not None:
            many = self._detector.num_classes
            return (many, many + 1) if name == self._detector.classes else ()
        return () if count is None else (count,)

    def _misfit(self, output: str, held: int, placed: int, classes: int) -> str:
        origin = "the model" if self._path is None else f"--labels {self._path}"
        moved = f", {placed} with --label-offset {self._offset}" if self._offset else ""
        sentence = f"{origin} names {held} classes{moved}, but output {output!r} has {classes}"
        if classes == held + 1:
            return f"{sentence}: if class 0 is a background, as it often is, --label-offset 1 gives the first label to class 1"
        if classes == held - 1:
            return f"{sentence}: if the first label is a background that the network lacks, --label-offset -1 leaves it out"
        return f"{sentence}: give the file of labels that belongs to this model by --labels"
