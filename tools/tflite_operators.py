"""Write the table of operators in tflite_parser/README.md: which types are computed, and by whom.

`python -m tools.tflite_operators` writes it. Nothing is told from memory: for each operator and
type a model of one call is made, parsed, loaded, and run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import dovetail
from dovetail import DovetailError, Network
from dovetail_tflite import parse
from dovetail_tflite.operators import HOME, OF_RESOURCES
from dovetail_tflite.registry import find
from dovetail_tflite.schema import OPERATORS

from .tflite_calls import HYBRID, TYPES, WITH_WEIGHTS, model_of

PAGE = Path(__file__).resolve().parents[1] / "tflite_parser" / "README.md"
BEGIN, END = "<!-- operators: begin -->", "<!-- operators: end -->"
_CUSTOM = "custom:"
_NO_OPERATORS = ("CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES")
"""Codes that stand for no operator of their own, or that no file has."""
_HEAD = f"""\
Generated, do not edit; a test keeps it up to date. To make it anew, in the root of the repository:

    python -m tools.tflite_operators

For each operator: the newest version of it that is read, and which elements it takes. Of int8,
uint8 and int16 the elements are quantized where the operator computes with them, with weights of
int8 beside int16; *{HYBRID}*: floats by weights of int8. Many take more types than they have in
TensorFlow Lite.

| word | what it says |
|---|---|
| Acc | `CpuAcc` computes it, without help of another backend; so does `CpuRef` |
| Ref | `CpuRef` computes it |
| read | it is parsed, but no backend of these computes it |
| - | it is refused with an error that says why |
| | an operator without weights is never {HYBRID} |
"""


def documentation() -> str:
    """Return the block between the markers, without these."""
    columns = (*TYPES, HYBRID)
    lines = [_HEAD, f"| operator | version | {' | '.join(columns)} |", "|---|---|" + "---|" * len(columns)]
    for operator in translated():
        version = newest(operator)
        words = (word(operator, version, column) for column in columns)
        lines.append(f"| {operator.removeprefix(_CUSTOM)} | {version} | {' | '.join(words)} |")
    return "\n".join(
        [*lines, "", "Builtin operators that are not translated, and refused by name:", "", *_wrapped(missing()), ""]
    )


def translated() -> list[str]:
    """List the operators that are translated: builtin ones, then custom ones."""
    return sorted([*HOME, *OF_RESOURCES], key=lambda name: (name.startswith(_CUSTOM), name))


def missing() -> list[str]:
    """List the builtin operators that are not translated."""
    return sorted(set(OPERATORS).difference(translated(), _NO_OPERATORS))


def newest(operator: str) -> int:
    """Return the newest version that is read."""
    if operator in OF_RESOURCES:
        return 1
    found = find(operator.removeprefix(_CUSTOM), custom=operator.startswith(_CUSTOM))
    assert found is not None, operator
    return found.newest


def word(operator: str, version: int, column: str) -> str:
    """Return what the table says of an operator and a type of elements."""
    if column == HYBRID and operator not in WITH_WEIGHTS:
        return ""
    try:
        network = parse(model_of(operator, version, column))
    except DovetailError:
        return "-"
    if not computes("CpuRef", network):
        return "read"
    return "Acc" if computes("CpuAcc", network) else "Ref"


def computes(backend: str, network: Network) -> bool:
    """Tell whether a backend computes all of a network."""
    try:
        loaded = dovetail.load(network, [backend], fallback=False)
    except DovetailError:
        return False
    with loaded:
        loaded.run({spec.name: _fed(spec) for spec in loaded.inputs})
    return True


def _fed(spec: Any) -> Any:
    return np.ones(spec.shape, spec.dtype.numpy) if spec.dtype.label != "int32" else np.zeros(spec.shape, np.int32)


def _wrapped(names: list[str]) -> Iterator[str]:
    """Break names, between commas, into lines of prose."""
    line = ""
    for name in names:
        part = f"`{name}`" + ("," if name != names[-1] else ".")
        if line and len(line) + 1 + len(part) > 100:
            yield line
            line = ""
        line = f"{line} {part}" if line else part
    yield line


def written(page: str, block: str) -> str:
    """Return a page with another block between the markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page lacks the markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{block}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8"), documentation()), "utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")
