"""A page as data, and its file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Node:
    """A box of the picture.

    Attributes:
        id: Unique on the page.
        group: What it is coloured by, such as its backend.
        title: What it is, in few words.
        name: Of the layer or tensor.
        note: A last line, such as a shape.
        details: What is told when it is chosen: (heading, text).
        values: Numbers by key of `Metric`.
        marks: Words that are searched for and shown as tags, such as "fallback".
    """

    id: str
    group: str
    title: str
    name: str = ""
    note: str = ""
    details: Sequence[tuple[str, str]] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    marks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow from what makes a tensor to what reads it; its label shows when it is pointed at."""

    source: str
    target: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that nodes may be coloured and sorted by.

    Attributes:
        key: In `Node.values`.
        title: For people, with the unit.
        digits: Significant digits shown.
    """

    key: str
    title: str
    digits: int = 3


@dataclass(frozen=True, slots=True)
class Page:
    """What a page shows.

    Attributes:
        title: Of the page and of its tab.
        command: That made it.
        summary: Lines above the picture.
        groups: In order of their colours.
        grouped_by: What a group is, in a word: "backend".
        plain: Groups without a colour of their own.
        lists: Closing lists: (heading, lines).
    """

    title: str
    command: str
    summary: Sequence[str]
    groups: Sequence[str]
    grouped_by: str
    nodes: Sequence[Node]
    edges: Sequence[Edge]
    metrics: Sequence[Metric] = ()
    lists: Sequence[tuple[str, Sequence[str]]] = ()
    plain: Sequence[str] = ()


def write_page(page: Page, path: Path) -> None:
    """Write a page; raises `OSError`."""
    content = page_text(page).encode("utf-8", "backslashreplace")  # names of files may be no text
    path.write_bytes(content)


def page_text(page: Page) -> str:
    """Return a page as HTML.

    Names in models are anything: all that is shown crosses as JSON in which nothing ends the
    element that holds it, and becomes text, never markup. The policy in the head has the browser
    refuse whatever would be fetched.
    """
    data = json.dumps(asdict(page), allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    style, script, dagre, licence = (
        files(__package__).joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js", "dagre.min.js", "dagre.LICENSE")
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(page.title)}</title>
<style>
{style}</style>
</head>
<body>
<noscript><p>This page draws a network, which takes JavaScript.</p></noscript>
<script type="application/json" id="data">{data}</script>
<script>
/* dagre lays the boxes out.
{licence}*/
{dagre}</script>
<script>
{script}</script>
</body>
</html>
"""
