"""Types of the tables of ports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..graph.descriptor import Array

class Ports:
    specs: list[Any]
    def __init__(self, specs: list[Any], fixed: Mapping[str, Array]) -> None: ...
