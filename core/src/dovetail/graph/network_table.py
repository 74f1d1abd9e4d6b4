"""A network as a table: what `print(network)` shows."""

from __future__ import annotations

from collections.abc import Sequence

from ..ground.cell_widths import cell_width, first_cells, last_cells, padded
from ..ground.foreign_text import printable
from ..ground.units import bytes_text, count_text
from .graph import Graph
from .summary import LayerSummary, NetworkSummary, TensorSummary, summarize_as_it_stands
from .tensor import TensorInfo

_FIRST, _LAST = 30, 15
"""Layers that are shown of more."""
_ENDS = 10
"""Inputs, outputs and states that are shown of more, of each."""
_NAME, _KIND, _OUTPUT = 28, 22, 28
"""Columns of the widest cells: with two numbers of 7 and the gaps they make 100 columns."""
_LONGEST_NAME = 64
"""Columns of the network's."""
_END, _TENSOR = 56, 32
"""Columns of the widest cells of ends, which callers have to name."""
_MOST_SYMBOLS = 5


def table_of(graph: Graph) -> str:
    """Describe a network: its ends, its layers with what they take, and a line that sums up.

    Lines are at most 100 columns wide. Of a network of many layers there are the first and the
    last.
    """
    found = summarize_as_it_stands(graph)
    blocks = [f"network {shortened(found.name, _LONGEST_NAME)!r}"]
    ends = end_lines((("input", found.inputs), ("output", found.outputs), ("state", found.states)))
    blocks[0] = "\n".join([blocks[0], *ends])
    if found.layers:
        blocks.append("\n".join(_layer_lines(found.layers)))
    return "\n\n".join([*blocks, _total(found)])


def shortened(text: str, most: int) -> str:
    """Return text for a cell: printable, and of what is too long the end, which tells more."""
    text = printable(text[-4 * most :])
    return text if cell_width(text) <= most else f"...{last_cells(text, most - 3)}"


def end_lines(ends: Sequence[tuple[str, Sequence[TensorSummary]]]) -> list[str]:
    """Return a line for each tensor at the ends of a network."""
    rows = []
    for what, tensors in ends:
        rows += [(what, shortened(one.name, _END), _tensor(one)) for one in tensors[:_ENDS]]
        if len(tensors) > _ENDS:
            rows.append((what, f"... {len(tensors) - _ENDS} more", ""))
    return _aligned(rows, "<<<")


def _tensor(one: TensorSummary) -> str:
    shape = "[?]" if one.shape is None else f"[{', '.join(map(str, one.shape))}]"
    return _cut(f"{one.dtype or '?'}{shape}", _TENSOR)


def _cut(text: str, most: int) -> str:
    text = printable(text[: 4 * most])
    return text if cell_width(text) <= most else f"{first_cells(text, most - 3)}..."


def _layer_lines(layers: Sequence[LayerSummary]) -> list[str]:
    is_cut = len(layers) > _FIRST + _LAST + 1
    shown = [*layers[:_FIRST], *layers[-_LAST:]] if is_cut else layers
    lines = _aligned([("layer", "kind", "output", "params", "MACs"), *map(_cells, shown)], "<<<>>")
    if is_cut:
        lines.insert(1 + _FIRST, f"... {len(layers) - len(shown)} more layers")
    return lines


def _cells(layer: LayerSummary) -> tuple[str, ...]:
    outputs = ", ".join("?" if info is None else _described(info) for info in layer.outputs[:4])
    return (
        shortened(layer.name, _NAME),
        shortened(layer.kind.removeprefix("dovetail."), _KIND),
        _cut(outputs, _OUTPUT),
        count_text(layer.parameters) if layer.parameters else "",
        "?" if layer.macs is None else count_text(layer.macs) if layer.macs else "",
    )


def _described(info: TensorInfo) -> str:
    return f"{info.dtype}[{', '.join(map(str, info.shape[:8]))}]"


def _aligned(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    widths = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(padded(cell, width, right=side == ">") for cell, side, width in zip(row, sides, widths, strict=True)).rstrip()
        for row in rows
    ]


def _total(found: NetworkSummary) -> str:
    count = len(found.layers)
    macs = "unknown" if found.macs is None else count_text(found.macs)
    parts = [
        f"{count} layer{'' if count == 1 else 's'}",
        f"{count_text(found.parameters)} parameters ({bytes_text(found.parameter_bytes)})",
        f"{macs} multiply-accumulates",
    ]
    symbols = [f"{shortened(name, 12)} = 1" for name in found.assumed]
    more = ["..."] if len(symbols) > _MOST_SYMBOLS else []
    where = f" for {', '.join([*symbols[:_MOST_SYMBOLS], *more])}" if symbols and found.macs else ""
    total = f"{', '.join(parts)}"
    return total + where if cell_width(total + where) <= 100 else f"{total}\n{where.strip()}"
