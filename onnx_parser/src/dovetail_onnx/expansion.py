"""How much a model becomes once its functions are expanded; asked before anything is.

Functions that call functions that call functions double with each level: some hundred bytes stand
for any number of nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dovetail.ground.limits import budget
from dovetail.ground.records import NamedTuple

from .malformed import malformed
from .messages import AttributeProto, FunctionProto, GraphProto, NodeProto
from .scope import plain_domain

FREE_WORK = 1 << 18
"""Names and numbers that any model may become; a usual node has five."""
WORK_PER_STORED = 64
"""How many more for each that the file holds.

A function that makes up most of the file may be called as often.
"""
_LOOKED_AT = 64
"""Bytes of a tensor that are as much work as a name."""
_GRAPH, _TENSOR = AttributeProto.AttributeType.GRAPH, AttributeProto.AttributeType.TENSOR

FunctionKey = tuple[str, str, str]
"""Domain, name and overload."""


def function_key(domain: str, name: str, overload: str) -> FunctionKey:
    """Return what a function is called by."""
    return plain_domain(domain), name, overload


class _Size(NamedTuple):
    """What nodes become, those of the functions that they call included.

    Attributes:
        nodes: How many.
        work: Their names and numbers.
    """

    nodes: int
    work: int


class Expansion:
    """Counts what a model becomes.

    Args:
        graph: The model's.
        functions: The model's.
        origin: What the model is called.

    Raises:
        ModelError: Its functions make it many times larger than its file (`MODEL_MALFORMED`).
        LimitError: It has more nodes, or deeper nesting, than the load may have.
    """

    def __init__(self, graph: GraphProto, functions: Mapping[FunctionKey, FunctionProto], origin: str) -> None:
        self._functions = functions
        self._origin = origin
        self._whole: dict[FunctionKey, _Size] = {}
        self._stored = 0
        self._work = 0
        whole = self._expanded(graph.node, 0, ())
        self._allowed = FREE_WORK + WORK_PER_STORED * self._stored
        self._check(whole.work)
        budget().check_layers(whole.nodes, f"{origin}, its functions expanded,")

    def count(self, node: NodeProto, attributes: Iterable[AttributeProto]) -> None:
        """Count a node that is translated; those of functions that ONNX defines are known only now.

        Raises:
            ModelError: There are too many of them (`MODEL_MALFORMED`).
            LimitError: There are more than the load may have, or that took too long.
        """
        load = budget()
        load.check_time()
        load.take_layers(1, f"{self._origin}, its functions expanded,")
        self._work += _work_of(node, attributes)
        self._check(self._work)

    def _check(self, work: int) -> None:
        if work > self._allowed:
            raise malformed(
                f"{self._origin} becomes many times larger than its file when its functions are expanded: "
                f"{work} names and numbers, and {self._allowed} are allowed for a file of its size",
                hint="its functions call each other over and over; export it with its functions inlined",
            )

    def _expanded(self, nodes: Iterable[NodeProto], depth: int, callers: tuple[FunctionKey, ...]) -> _Size:
        budget().check_nesting(depth, f"a function or branch of {self._origin}")
        count = work = 0
        for node in nodes:
            count += 1
            own = _work_of(node, node.attribute)
            self._stored += own
            work += own
            for attribute in node.attribute:
                if attribute.type == _GRAPH:
                    inner = self._expanded(attribute.g.node, depth + 1, callers)
                    count, work = count + inner.nodes, work + inner.work
            key = function_key(node.domain, node.op_type, node.overload)
            if key in self._functions:
                called = self._called(key, depth + 1, callers)
                count, work = count + called.nodes, work + called.work
        return _Size(count, work)

    def _called(self, key: FunctionKey, depth: int, callers: tuple[FunctionKey, ...]) -> _Size:
        if key in callers:
            chain = " -> ".join(repr(name) for _, name, _ in (*callers, key))
            raise malformed(
                f"function {key[1]!r} of {self._origin} calls itself: {chain}",
                hint="ONNX has no recursion",
            )
        known = self._whole.get(key)
        if known is None:
            function = self._functions[key]
            around = len(function.input) + len(function.output) + len(function.attribute_proto) + len(function.opset_import)
            self._stored += around
            inner = self._expanded(function.node, depth, (*callers, key))
            known = self._whole[key] = _Size(inner.nodes, inner.work + around)
        return known


def _work_of(node: NodeProto, attributes: Iterable[AttributeProto]) -> int:
    work = 1 + len(node.input) + len(node.output)
    for one in attributes:
        work += 1 + len(one.ints) + len(one.floats) + len(one.strings)
        if one.type == _TENSOR:
            value = one.t
            lists = (value.float_data, value.int32_data, value.int64_data, value.double_data, value.uint64_data)
            work += sum(map(len, lists)) + len(value.raw_data) // _LOOKED_AT
    return work
