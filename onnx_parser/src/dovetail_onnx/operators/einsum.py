"""Einstein summation, lowered to permutations, products and sums."""

from __future__ import annotations

import string

from dovetail.graph.layer import OutputSlot
from dovetail.ground.records import NamedTuple

from ..node import Node
from ..registry import builtin
from ..unsupported import Unsupported


class _Term(NamedTuple):
    """A tensor and one label per axis."""

    slot: OutputSlot
    labels: str


@builtin("Einsum")
def einsum(node: Node) -> OutputSlot:
    """Translate a sum of products, joining operands one by one.

    Each label is summed once nobody needs it any more.
    """
    terms, result = _parse(node)
    current = _summed(node, terms[0], _needed(terms[1:], result), "sum0")
    for index, term in enumerate(terms[1:], 1):
        needed = _needed(terms[index + 1 :], result)
        reduced = _summed(node, term, needed + current.labels, f"sum{index}")
        current = _summed(node, current, needed + reduced.labels, f"left{index}")
        current = _joined(node, current, reduced, needed, f"{index}")
    return _ordered(node, current, result, node.label())


def _parse(node: Node) -> tuple[list[_Term], str]:
    equation = node.string("equation").replace(" ", "")
    left, arrow, result = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(node.inputs):
        raise node.malformed(f"has {len(node.inputs)} inputs, but the equation {equation!r}")
    spare = [letter for letter in string.ascii_letters if letter not in equation]
    counts = [_unlabelled(node, slot, part) for part, slot in zip(parts, node.inputs, strict=True)]
    widest = max(counts, default=0)
    if min(counts, default=0) < 0 or widest > len(spare):
        raise node.malformed(f"has the equation {equation!r}, which does not fit the ranks of its inputs")
    ellipsis = "".join(spare[:widest])
    terms = []
    for part, slot, count in zip(parts, node.inputs, counts, strict=True):
        labels = part.replace("...", ellipsis[widest - count :])
        if not labels.isalpha() and labels:
            raise node.malformed(f"has the equation {equation!r}")
        if len(set(labels)) != len(labels):
            raise Unsupported(f"a label stands twice in {part!r}: diagonals are not there", attribute="equation")
        rank = node.rank_of(slot)
        if rank is not None and rank != len(labels):
            raise node.malformed(f"has the equation {equation!r}, but an input of rank {rank} for {part!r}")
        terms.append(_Term(slot, labels))
    if arrow:
        return terms, result.replace("...", ellipsis)
    seen = "".join(term.labels for term in terms)
    return terms, ellipsis + "".join(sorted(label for label in set(seen) - set(ellipsis) if seen.count(label) == 1))


def _unlabelled(node: Node, slot: OutputSlot, part: str) -> int:
    if "..." not in part:
        return 0
    return node.known_rank(slot, "'...' stands for the axes that have no label") - len(part.replace("...", ""))


def _needed(terms: list[_Term], result: str) -> str:
    return result + "".join(term.labels for term in terms)


def _summed(node: Node, term: _Term, needed: str, part: str) -> _Term:
    axes = [axis for axis, label in enumerate(term.labels) if label not in needed]
    if not axes:
        return term
    slot = node.network.reduce(term.slot, "sum", axes, name=node.label(part))
    return _Term(slot, "".join(label for label in term.labels if label in needed))


def _joined(node: Node, a: _Term, b: _Term, needed: str, part: str) -> _Term:
    shared = [label for label in a.labels if label in b.labels]
    inner = "".join(label for label in shared if label not in needed)
    batch = "".join(label for label in shared if label in needed)
    rows = "".join(label for label in a.labels if label not in b.labels)
    columns = "".join(label for label in b.labels if label not in a.labels)
    if len(inner) == 1 and len(rows) <= 1 and len(columns) <= 1:
        return _product(node, a, b, (batch, rows, inner, columns), part)
    # Any number of labels: broadcast both to all of them, multiply, and sum what is not needed.
    everything = batch + rows + columns + inner
    left, right = (_spread(node, term, everything, f"{side}{part}") for term, side in ((a, "a"), (b, "b")))
    product = node.network.multiplication(left, right, name=node.label(f"product{part}"))
    return _summed(node, _Term(product, everything), batch + rows + columns, f"total{part}")


def _product(node: Node, a: _Term, b: _Term, labels: tuple[str, str, str, str], part: str) -> _Term:
    batch, rows, inner, columns = labels
    left = _spread(node, a, batch + (rows or "-") + inner, f"a{part}")
    right = _spread(node, b, batch + inner + (columns or "-"), f"b{part}")
    product = node.network.matmul(left, right, name=node.label(f"matmul{part}"))
    axes = ([len(batch)] if not rows else []) + ([len(batch) + 1] if not columns else [])
    if axes:
        product = node.network.squeeze(product, axes, name=node.label(f"vector{part}"))
    return _Term(product, batch + rows + columns)


def _spread(node: Node, term: _Term, target: str, part: str) -> OutputSlot:
    """Order the axes as in `target`, with an axis of one for each label that the term lacks."""
    ordered = _ordered(node, term, "".join(label for label in target if label in term.labels), node.label(f"{part}_ordered"))
    missing = [axis for axis, label in enumerate(target) if label not in term.labels]
    return node.network.expand_dims(ordered, missing, name=node.label(part)) if missing else ordered


def _ordered(node: Node, term: _Term, target: str, name: str) -> OutputSlot:
    if sorted(term.labels) != sorted(target):
        raise Unsupported(f"the result {target!r} has labels that no input has, or twice", attribute="equation")
    if term.labels == target:
        return term.slot
    return node.network.permute(term.slot, [term.labels.index(label) for label in target], name=name)
