"""Call a function that others registered for an operator."""

from __future__ import annotations

from typing import Any

from dovetail.graph.layer import OutputSlot
from dovetail.graph.translation_calls import TranslationCall
from dovetail.ground.registered_translations import Registration

from .node import Node
from .unsupported import Unsupported


def call_own(known: Registration, node: Node) -> list[OutputSlot | None]:
    """Return what a registered function makes of a node: its outputs.

    Raises:
        Unsupported: It refuses the node.
        ModelError: It failed or returned something else (`OPERATOR_FAILED`), or it met an error of
            dovetail's, which keeps its class and code.
    """
    operator = f"node {node.name!r} ({node.domain or 'ai.onnx'}.{node.op}, opset {node.opset})"
    details: dict[str, Any] = {"node": node.name, "op": node.op, "domain": node.domain}
    found = TranslationCall(operator, "node", known.translate, node.network, details, (Unsupported,)).outputs(node)
    node.ignore(*known.ignored)
    return found
