"""What the claims of a manifest come to, without the backend's code."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import dovetail
from dovetail import BackendId, Capabilities, Device, IBackend, IWorkloadFactory, Layer, Support, layers
from dovetail.contract.claims import DTYPE_GROUPS, Claim, Claims
from dovetail.contract.device import DEFAULT_DEVICE, Fact
from dovetail.contract.promises import NOTHING, Promises
from dovetail.contract.quantities import (
    ATTRIBUTE_FACTS,
    DERIVED,
    DEVICE_FACTS,
    IMAGE_AXES,
    SLOT_FACTS,
    WEIGHT_AXES,
    Quantity,
)
from dovetail.graph.descriptor import Descriptor

if TYPE_CHECKING:
    from .options import ModelFile


def doubts_about(claims: Mapping[str, Sequence[Claim]]) -> list[str]:
    """Look up every kind and quantity; returns a sentence for each that dovetail does not know."""
    public = [getattr(layers, name) for name in layers.__all__]
    known = {one.kind: one for one in public if isinstance(one, type) and issubclass(one, Descriptor)}
    problems: list[str] = []
    for kind, entries in claims.items():
        if kind not in known:
            if kind.startswith("dovetail."):
                close = difflib.get_close_matches(kind, known, n=1)
                problems.append(f"{kind} is no kind of dovetail{f'; did you mean {close[0]}?' if close else ''}")
            continue
        quantities = {
            quantity.name: quantity for claim in entries for condition in claim.where for quantity in condition.quantities()
        }
        problems += [problem for quantity in quantities.values() if (problem := _doubt(known[kind], quantity))]
    return problems


def _doubt(kind: type[Descriptor], quantity: Quantity) -> str:
    attributes = [one.name for one in dataclasses.fields(kind)]  # type: ignore[arg-type]  # kinds are dataclasses
    subject, fact = quantity.subject, quantity.fact
    if quantity.name in DERIVED or (subject == "device" and fact):
        return ""
    if quantity.is_of_tensor(kind):
        axes = WEIGHT_AXES if subject == "weights" else IMAGE_AXES
        if fact in SLOT_FACTS or fact.lstrip("-").isdecimal() or (fact in axes and "layout" in attributes):
            return ""
        return f"{quantity.name!r} of {kind.kind}: {fact!r} is no axis and none of {', '.join(SLOT_FACTS)}"
    if subject in attributes:
        if not fact or fact in ATTRIBUTE_FACTS or fact.lstrip("-").isdecimal():
            return ""
        return f"{quantity.name!r} of {kind.kind}: {fact!r} is no index and none of {', '.join(ATTRIBUTE_FACTS)}"
    if fact:
        slots = ", ".join((*kind.input_names, "output", "outputs"))
        return f"{kind.kind} has no input {subject!r} (in {quantity.name!r}); it has {slots}"
    close = difflib.get_close_matches(subject, attributes, n=1)
    return f"{kind.kind} has no attribute {subject!r}{f'; did you mean {close[0]!r}?' if close else ''}"


def dtypes_text(claim: Claim) -> str:
    """Name the element types of a claim, groups by their name."""
    left = dict.fromkeys(claim.dtypes)
    words = []
    for name in ("any", "float", "integer"):
        if all(dtype in left for dtype in DTYPE_GROUPS[name]):
            words.append(name)
            for dtype in DTYPE_GROUPS[name]:
                del left[dtype]
    return ", ".join([*words, *(dtype.label for dtype in left)])


def as_data(claims: Claims) -> dict[str, Any]:
    """Return claims with all names resolved, for programs."""
    return {kind: [_scope(claim) for claim in several] for kind, several in claims.items()}


def _scope(claim: Claim) -> dict[str, Any]:
    return {
        "dtypes": [dtype.label for dtype in claim.dtypes],
        "where": [{"quantity": one.quantity.name, "taken": one.taken()} for one in claim.where],
    }


def promises_as_data(promises: Promises) -> dict[str, Any]:
    """Return promises with all names resolved, for programs."""
    exact = [
        {"kind": kind, **_scope(one.scope), "standard": one.standard}
        for kind, several in promises.bit_exact.items()
        for one in several
    ]
    deviations = [
        {"kind": one.kind, **_scope(one.scope), "what": one.what, "why": one.why, "bound": one.bound, "link": one.link}
        for one in promises.deviations
    ]
    return {"bit_exact": exact, "deviations": deviations}


class LayerCoverage(NamedTuple):
    """What the claims say of one layer of a model.

    Attributes:
        name, kind: Of the layer, as the optimizer leaves it.
        taken: Whether it is claimed.
        code, reason: Why not.
        deviations: What the manifest declares of such layers, for people.
    """

    name: str
    kind: str
    taken: bool
    code: str = ""
    reason: str = ""
    deviations: tuple[str, ...] = ()


class Coverage(NamedTuple):
    """What the claims say of a model.

    Attributes:
        layers: In an order in which they can run.
        assumed: Sizes that were assumed where they are open.
    """

    layers: tuple[LayerCoverage, ...]
    assumed: Mapping[str, int]


class _Paper(IBackend):
    """Stands for a backend of which only the claims are there: it is asked and never run."""

    def __init__(self, claims: Claims | None, device: Device = DEFAULT_DEVICE, promises: Promises = NOTHING) -> None:
        self.claims = claims
        self._device = device
        self._promises = promises
        self.deviations: dict[str, tuple[str, ...]] = {}

    @property
    def id(self) -> BackendId:
        return BackendId("Others" if self.claims is None else "Claims")

    def supports(self, layer: Layer, options: Any, device: Device) -> Support:
        self.deviations[layer.name] = tuple(map(str, self._promises.deviations_of(layer, device)))
        return Support.yes() if self.claims is None else self.claims.support(layer, device)

    def devices(self) -> tuple[Device, ...]:
        return (self._device,)

    def capabilities(self) -> Capabilities:
        # Networks that spell quantization out become integer layers as far as these are claimed.
        return Capabilities(integers=self.claims is not None)

    def create_workload_factory(self, context: object, memory: object, options: object) -> IWorkloadFactory:
        raise NotImplementedError("nothing is run by claims alone")


def coverage_of(
    claims: Claims,
    model: ModelFile,
    shape: dict[str, tuple[int, ...]],
    facts: Mapping[str, Fact] | None = None,
    promises: Promises = NOTHING,
    values: Mapping[str, str] | None = None,
) -> Coverage:
    """Place a model by claims alone.

    Args:
        claims: What is taken.
        model: Its file.
        shape: Shapes of inputs, by name; open sizes that are not given are taken as one.
        facts: What the device says of itself.
        promises: What is promised beyond the claims.
        values: Of inputs that branches and shapes depend on, as texts; see `options.values_for`.
    """
    from .options import one_for_open_sizes, shapes_for, values_for

    known = {name: value for name, value in (facts or {}).items() if name in DEVICE_FACTS}
    own = {name: value for name, value in (facts or {}).items() if name not in DEVICE_FACTS}
    device = Device(facts=own, **known)  # type: ignore[arg-type]  # the user's own words for what a device says
    network = dovetail.parse(model)
    shapes = shapes_for(network, shape)
    assumed = one_for_open_sizes(network, shapes)
    paper = _Paper(claims, device, promises)
    sizes, fixed = {**shapes, **assumed} or None, values_for(network, values or {})
    placement = dovetail.optimize(network, [paper, _Paper(None)], shapes=sizes, values=fixed).placement
    rows = []
    for row in placement.layers:
        if row.backend is None:
            continue
        refusal = next((one for one in row.refusals), None)
        taken = row.backend == "Claims"
        said = ("", "") if taken or refusal is None else (refusal.code, refusal.reason)
        rows.append(LayerCoverage(row.name, row.kind, taken, *said, paper.deviations.get(row.name, ()) if taken else ()))
    return Coverage(tuple(rows), assumed)
