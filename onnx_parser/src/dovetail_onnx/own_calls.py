"""Call a function that others registered for an operator, and say whose it is when it fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dovetail import DovetailError, ErrorCode, LimitError, ModelError
from dovetail.graph.layer import Layer, OutputSlot
from dovetail.ground.foreign_text import described as text_of
from dovetail.ground.host_exceptions import is_of_host

from .node import Node
from .own_operators import OwnOperator, described
from .unsupported import Unsupported


def call_own(known: OwnOperator, node: Node) -> list[OutputSlot | None]:
    """Return what a registered function makes of a node: its outputs.

    Raises:
        Unsupported: It refuses the node.
        ModelError: It failed or returned something else (`OPERATOR_FAILED`), or it met an error of
            dovetail's, which keeps its class and code.
    """
    try:
        results = known.translate(node)
        node.ignore(*known.ignored)
        return _outputs(results, node, known)
    except (Unsupported, MemoryError, LimitError):
        raise
    except Exception as error:
        if is_of_host(error):
            raise
        raise _failed(error, node, known) from error


def _outputs(results: Any, node: Node, known: OwnOperator) -> list[OutputSlot | None]:
    listed = [results] if isinstance(results, OutputSlot | None) else results
    is_listed = isinstance(listed, Sequence) and not isinstance(listed, str | bytes)
    for one in listed if is_listed else [listed]:
        if one is None and results is not None:
            continue  # an output that is not computed
        if not isinstance(one, OutputSlot):
            hint = "return the layer's `output`, or its `outputs`" if isinstance(one, Layer) else _RETURN
            raise _error(node, known, f"returned {_said(one)}, expected an output slot", hint)
        if one.layer.name not in node.network or node.network.layer(one.layer.name) is not one.layer:
            raise _error(node, known, f"returned {one.name!r}, a slot of another network", "add layers to `node.network`")
    return list(listed)


_RETURN = "return the slot that `node.network` gave for the last layer, or one for each output of the node"


def _said(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _failed(error: Exception, node: Node, known: OwnOperator) -> ModelError:
    if not isinstance(error, DovetailError):
        return _error(node, known, f"failed: {text_of(error)}", "its traceback is chained to this error")
    if error.code == ErrorCode.OPERATOR_FAILED and isinstance(error, ModelError):
        return error
    kind = type(error) if isinstance(error, ModelError) else ModelError
    if kind.__module__ != ModelError.__module__:  # a class of somebody else's may be made in another way
        kind = ModelError
    details = {**error.details, **_details(node, known)}
    return kind(f"{_whose(node, known)} failed: {error.message}", code=error.code, hint=error.hint, **details)


def _error(node: Node, known: OwnOperator, what: str, hint: str) -> ModelError:
    return ModelError(f"{_whose(node, known)} {what}", code=ErrorCode.OPERATOR_FAILED, hint=hint, **_details(node, known))


def _whose(node: Node, known: OwnOperator) -> str:
    operator = f"{node.domain or 'ai.onnx'}.{node.op}, opset {node.opset}"
    return f"node {node.name!r} ({operator}): the function {described(known.translate)} that is registered for it"


def _details(node: Node, known: OwnOperator) -> dict[str, Any]:
    return {"node": node.name, "op": node.op, "domain": node.domain, "function": described(known.translate)}
