"""Call a function that others registered for an operator."""

from __future__ import annotations

from typing import Any

from dovetail.graph.layer import OutputSlot
from dovetail.graph.translation_calls import TranslationCall
from dovetail.ground.registered_translations import Registration

from .call import Call
from .unsupported import NotTranslated, Unsupported


def call_own(known: Registration, call: Call) -> list[OutputSlot]:
    """Return what a registered function makes of an operator: a slot for each of its outputs.

    Raises:
        Unsupported: It refuses the operator.
        NotTranslated: It refuses something in a subgraph.
        ModelError: It failed or returned something else (`OPERATOR_FAILED`), or it met an error of
            dovetail's, which keeps its class and code.
    """
    operator = f"operator {call.name!r} ({call.op}, version {call.version})"
    details: dict[str, Any] = {"node": call.name, "op": call.op}
    made = TranslationCall(operator, "call", known.translate, call.network, details, (Unsupported, NotTranslated))
    found = [slot for slot in made.outputs(call) if slot is not None]
    if len(found) != len(call.outputs):
        what = f"returned {len(found)} slots for {len(call.outputs)} outputs"
        raise made.error(what, "return the slot of the result, or a sequence of one for each output")
    for index, (slot, stated) in enumerate(zip(found, call.outputs, strict=True)):
        if call.dtype_of(slot) is not stated.dtype:
            what = f"returned {call.dtype_of(slot)} for output {index}, but the file says {stated.dtype}"
            raise made.error(what, "convert it, or compute on real numbers by `call.add_real`")
    return found
