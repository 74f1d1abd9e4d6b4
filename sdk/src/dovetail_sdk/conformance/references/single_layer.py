"""Cases of one layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dovetail import Descriptor, DType, Quantization
from dovetail.graph.graph import Graph
from dovetail.graph.layer import OutputSlot

from ..cases import EXACT, Array, Bits, Case, Feed, Tolerance


def layer_case(
    descriptor: Descriptor,
    feeds: Sequence[Feed | None],
    *expected: Array,
    tolerance: Tolerance = EXACT,
    quantization: Quantization | None = None,
    bits: Mapping[str, Bits] | None = None,
) -> Case:
    """Make a case of one layer.

    Args:
        descriptor: The layer.
        feeds: Its operands.
        expected: Its outputs.
        tolerance: Of every output.
        quantization: Of the first output, where the kind does not imply it.
        bits: Of every output, by the standard that defines them.
    """

    def build(graph: Graph, slots: Sequence[OutputSlot | None]) -> Sequence[OutputSlot]:
        return graph.add(descriptor, *slots, quantization=quantization).outputs

    return Case(build, tuple(feeds), expected, (tolerance,) * len(expected), (bits or {},) * len(expected))


def carries(how: str | None, dtype: DType) -> bool:
    """Tell whether a tensor of this element type can be `marked`."""
    return how is None or dtype in (DType.INT8, DType.UINT8)


def marked(how: str | None) -> Quantization | None:
    """Return a quantization for kinds that keep it and move integers unchanged; None for None."""
    return None if how is None else Quantization.per_tensor(0.05, 3)
