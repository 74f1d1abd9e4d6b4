"""Read the names of classes that exporters leave in the metadata of a model.

ONNX knows no key for them. Ultralytics writes `names`, a dict or a list as Python prints it; others
write `labels`, `class_names`, `classes` or `id2label`, as JSON or as lines.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dovetail.graph.meaning import Meaning

from .metadata import PROPERTIES

KEYS = ("names", "labels", "class_names", "classes", "id2label", "label_names")
"""Where names of classes are looked for, the likeliest first."""
_GAPS = 1000
"""Numbers of classes without a name, beyond one for each name."""
_TEXT = r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\""""
_ITEM = re.compile(rf"\s*(?:(\d{{1,9}})\s*:\s*)?({_TEXT})\s*(?:,\s*|\Z)", re.ASCII)
"""Of a dict or a list as Python prints it: number, if there is one, and name."""


def meanings(metadata: Mapping[str, str], outputs: Sequence[str]) -> dict[str, Meaning]:
    """Return what the metadata say of outputs, by name.

    Nothing says which output has the classes: each is said to have them. What cannot be read is
    left out, since any key may mean something else.

    Args:
        metadata: Of the network.
        outputs: Names of the outputs.
    """
    for key in KEYS:
        labels = labels_in(metadata.get(f"{PROPERTIES}{key}", "").strip())
        if labels:
            return {name: Meaning(labels=labels) for name in outputs}
    return {}


def labels_in(text: str) -> tuple[str, ...]:
    """Return the names that a value lists; none if it is no list of names."""
    if text[:1] not in ("{", "["):
        lines = [line.strip() for line in (text.splitlines() if "\n" in text else text.split(","))]
        return tuple(lines) if len(lines) > 1 else ()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = _printed(text)
    if isinstance(found, Mapping):
        return _by_number(found)
    if isinstance(found, list) and found and all(isinstance(name, str) for name in found):
        return tuple(found)
    return ()


def _by_number(named: Mapping[Any, Any]) -> tuple[str, ...]:
    """Put names in the order of their classes; a class without a name has an empty one."""
    if not named or not all(isinstance(name, str) for name in named.values()):
        return ()
    if not all(re.fullmatch(r"\d{1,9}", str(number), re.ASCII) for number in named):
        return ()
    numbers = {int(number): name for number, name in named.items()}
    count = max(numbers) + 1
    return tuple(numbers.get(number, "") for number in range(count)) if count <= 2 * len(numbers) + _GAPS else ()


def _printed(text: str) -> dict[Any, str] | list[str] | None:
    """Read a dict or a list as Python prints it; None if it is none.

    `ast.literal_eval` is given nothing but single texts: of what a file nests it may make the
    interpreter crash.
    """
    closing = {"{": "}", "[": "]"}[text[0]]
    if not text.endswith(closing):
        return None
    try:
        items = list(_items(text[1:-1]))
    except (ValueError, SyntaxError):
        return None
    if closing == "}":
        return dict(items) if all(number is not None for number, _ in items) else None
    return [name for _, name in items] if all(number is None for number, _ in items) else None


def _items(body: str) -> Iterator[tuple[int | None, str]]:
    at = 0
    while at < len(body):
        item = _ITEM.match(body, at)
        if item is None:
            raise ValueError(f"no name at {body[at : at + 20]!r}")
        at = item.end()
        yield (int(item[1]) if item[1] else None), ast.literal_eval(item[2])
