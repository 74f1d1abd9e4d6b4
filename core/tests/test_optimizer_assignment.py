"""Which backend gets which layer, and what is said about it."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
from fakes.backends import Answer, Choosing, only
from fakes.placements import homes, small

from dovetail.contract.interfaces import Support
from dovetail.graph.descriptor import Descriptor
from dovetail.graph.element_types import DType
from dovetail.graph.layer import Layer
from dovetail.graph.tensor import TensorInfo
from dovetail.ground.errors import ErrorCode, OptionError, PlacementError
from dovetail.layers.network import Network
from dovetail.optimizer import Answers, Assigned, CompileRequest, optimize

# -- the rule --------------------------------------------------------------------------------------


def test_the_first_that_takes_it() -> None:
    first, second = Choosing("First", only("Convolution2d")), Choosing("Second")
    network = optimize(small(), [first, second])
    assert homes(network) == {"conv": "First", "soft": "Second", "last": "Second"}
    assert first.asked == ["conv", "soft", "last"], "inputs, outputs and constants are not asked about"
    row = network.placement.layer("soft")
    assert row.reason == "fallback"
    assert [(r.backend, r.code, r.attribute) for r in row.refusals] == [("First", "kind", "kind")]
    assert network.placement.layer("conv").reason == "first choice"
    assert [one.name for one in network.placement.fallbacks] == ["soft", "last"]


def test_all_homeless_layers_are_told_at_once_with_every_refusal() -> None:
    with pytest.raises(PlacementError) as caught:
        optimize(small(), [Choosing("First", only("Convolution2d")), Choosing("Second", only("Convolution2d"))])
    error = caught.value
    assert error.code is ErrorCode.NO_BACKEND_FOR_LAYER
    assert "optimize(" not in (error.hint or "")  # whoever called `load` has no such call to change
    assert "2 layers have no backend among First, Second" in error.message
    assert sorted(error.details["refusals"]) == ["last", "soft"]
    assert [r.backend for r in error.details["refusals"]["soft"]] == ["First", "Second"]
    assert "no dovetail.Softmax here" in error.message


class Unprintable:
    def __repr__(self) -> str:
        raise SystemExit(3)

    def __bool__(self) -> bool:
        raise ValueError("neither")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda layer: 1 / 0, "ZeroDivisionError"),
        (lambda layer: True, "returned True, not a Support"),
        (lambda layer: None, "returned None"),
        (lambda layer: Support(False), "it said: nothing"),
        (lambda layer: Support(False, reason="because"), "it said: because"),
        (lambda layer: Unprintable(), r"returned (its text cannot be printed), not a Support"),
        (lambda layer: Support(Unprintable()), "whose supported is (its text cannot be printed), not yes or no"),  # type: ignore[arg-type]
        (lambda layer: Support("yes"), "whose supported is 'yes', not yes or no"),  # type: ignore[arg-type]
        (lambda layer: Support(False, Unprintable(), "no"), "whose code is (its text cannot be printed)"),  # type: ignore[arg-type]
        (lambda layer: Support(False, "no", 5), "whose reason is 5, not a text"),  # type: ignore[arg-type]
        (lambda layer: Support(False, "no", "no", 5), "whose attribute is 5, not a text"),  # type: ignore[arg-type]
    ],
)
def test_answers_against_the_contract_are_refusals(answer: Answer, said: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "dovetail.optimizer"):
        network = optimize(small(), [Choosing("Bad", answer), Choosing("Good")])
    assert set(homes(network).values()) == {"Good"}
    refusal = network.placement.layer("conv").refusals[0]
    assert refusal.code == "contract"
    assert said in refusal.reason
    assert "Bad" in caplog.text


def other_info(layer: Layer) -> None:
    layer.output.info = TensorInfo((1, 1), DType.INT8)


def other_name(layer: Layer) -> None:
    layer.name = f"{layer.name} of mine"


def other_source(layer: Layer) -> None:
    layer.inputs[0].source = layer.output


def other_descriptor(layer: Layer) -> None:
    layer.descriptor = None  # type: ignore[assignment]


CHANGES: dict[str, Callable[[Layer], None]] = {
    "name": other_name,
    "info": other_info,
    "source": other_source,
    "descriptor": other_descriptor,
    "inputs": lambda layer: layer.inputs.clear(),
    "outputs": lambda layer: layer.outputs.clear(),
    "consumers": lambda layer: layer.output.consumers.clear(),
    "no list": lambda layer: setattr(layer, "inputs", 5),
}


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_backend_that_changes_what_it_is_asked_about_loses_the_layer(change: str, raises: bool) -> None:
    def answer(layer: Layer) -> Support:
        CHANGES[change](layer)
        if raises:
            raise ValueError("and more")
        return Support.yes()

    network = optimize(small(), [Choosing("Bad", answer), Choosing("Good")])
    assert homes(network) == {"conv": "Good", "soft": "Good", "last": "Good"}
    refusal = network.placement.layer("conv").refusals[0]
    assert (refusal.backend, refusal.code) == ("Bad", "contract")
    assert ("and more" if raises else "changed the layer that it was asked about") in refusal.reason
    network.graph.validate()
    sound = optimize(small(), [Choosing("Good")])
    assert [(one.name, one.kind, one.input_infos) for one in network.graph] == [
        (one.name, one.kind, one.input_infos) for one in sound.graph
    ]


@dataclass(frozen=True, kw_only=True)
class Swish(Descriptor, kind="acme.Swish", version=2):
    """A kind that only this test knows."""

    beta: float = 1.0
    gamma: float = field(default=0.0, metadata={"since": 2})

    def infer(self, inputs: Any) -> Sequence[Any]:
        return [inputs[0]]


class Newer(Choosing):
    kind_versions: ClassVar[dict[str, int]] = {"acme.Swish": 2}


def test_newer_attributes_are_refused_for_old_backends() -> None:
    def network(gamma: float) -> Network:
        net = Network()
        net.output(net.add(Swish(gamma=gamma), net.input("x", (2,)), name="swish").output, "y")
        return net

    old, new = Choosing("Old"), Newer("New")
    assert homes(optimize(network(0.0), [old, new])) == {"swish": "Old"}
    placed = optimize(network(0.5), [old, new])
    assert homes(placed) == {"swish": "New"}
    refusal = placed.placement.layer("swish").refusals[0]
    assert (refusal.code, refusal.attribute) == ("version", "gamma")
    assert "version 1" in refusal.reason
    assert old.asked == ["swish"], "the core refuses on the old backend's behalf, without asking"


def test_support_may_depend_on_the_neighbours() -> None:
    def answer(layer: Layer) -> Support:
        source = layer.inputs[0].source
        if layer.kind == "dovetail.Softmax" and source is not None and source.layer.kind == "dovetail.Convolution2d":
            return Support.yes()
        return only("Convolution2d")(layer)

    assert homes(optimize(small(), [Choosing("First", answer), Choosing("Second")]))["soft"] == "First"


# -- constraints -----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["soft", "so*", "dovetail.Softmax", "Softmax"])
def test_require_by_name_glob_or_kind(key: str) -> None:
    network = optimize(small(), [Choosing("First"), Choosing("Second")], require={key: "Second"})
    assert homes(network) == {"conv": "First", "soft": "Second", "last": "First"}
    assert network.placement.layer("soft").reason == "required"
    assert network.placement.fallbacks == ()


@pytest.mark.parametrize("ids", ["First", ["First"], ("First",)])
def test_forbid(ids: Any) -> None:
    network = optimize(small(), [Choosing("First"), Choosing("Second")], forbid={"soft": ids})
    assert homes(network) == {"conv": "First", "soft": "Second", "last": "First"}
    refusal = network.placement.layer("soft").refusals[0]
    assert refusal.code == "forbidden"
    assert "forbid={'soft': 'First'}" in refusal.reason


def test_the_more_specific_requirement_counts() -> None:
    constraints = {"Softmax": "First", "s*": "Second", "soft": "Third"}
    backends = [Choosing("First"), Choosing("Second"), Choosing("Third")]
    assert homes(optimize(small(), backends, require=constraints))["soft"] == "Third"
    with pytest.raises(OptionError, match="pinned twice"):
        optimize(small(), backends, require={"s*": "First", "*t": "Second"})


def test_a_requirement_that_cannot_be_met_is_an_error() -> None:
    with pytest.raises(PlacementError) as caught:
        optimize(small(), [Choosing("First"), Choosing("Second", only("Convolution2d"))], require={"soft": "Second"})
    assert caught.value.code is ErrorCode.PLACEMENT_FORBIDDEN
    assert [r.code for r in caught.value.details["refusals"]["soft"]] == ["required", "kind"]
    with pytest.raises(PlacementError, match="forbid"):
        optimize(small(), [Choosing("First")], forbid={"*": "First"})


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ({"require": {"sofd": "First"}}, "did you mean 'soft'"),
        ({"require": {"Softmx": "First"}}, "did you mean 'Softmax'"),
        ({"forbid": {"soft": "Frist"}}, "did you mean 'First'"),
        ({"require": {"soft": "First:3"}}, "not in backends="),
        ({"forbid": {"soft": []}}, "names no backend"),
        ({"require": {"nothing*": "First"}}, "no layer and no kind"),
    ],
)
def test_constraints_about_unknown_names_are_errors(constraint: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        optimize(small(), [Choosing("First")], **constraint)
    assert message in str(caught.value)


@pytest.mark.parametrize("option", ["require", "forbid"])
@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ({"x": "First"}, "'x' names 'x' (dovetail.Input), which no backend runs"),
        ({"y": "First"}, "'y' names 'y' (dovetail.Output), which no backend runs"),
        ({"conv.1": "First"}, "(dovetail.Constant), which no backend runs"),
        ({"conv.*": "First"}, "(dovetail.Constant), which no backend runs"),
        ({"Input": "First"}, "'Input' is a kind that no backend runs"),
        ({"dovetail.Constant": "First"}, "is a kind that no backend runs"),
        (["soft"], "is ['soft'] (list)"),
        ({3: "First"}, "the key 3 is a int"),
        ({"soft": 3}, "'soft'"),
        ({"soft": [3]}, "'soft'"),
    ],
)
def test_constraints_that_mean_nothing_are_errors(option: str, constraint: Any, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        optimize(small(), [Choosing("First")], **{option: constraint})
    assert caught.value.code is ErrorCode.OPTION_INVALID
    assert message in caught.value.message
    assert caught.value.hint


def test_constraints_follow_layers_that_were_folded_into_others() -> None:
    net = Network()
    y = net.convolution2d(net.input("x", (1, 1, 2, 2)), np.ones((1, 1, 1, 1), np.float32), name="conv")
    y = net.batch_normalization(y, *(np.ones(1, np.float32) for _ in range(4)), name="bn")
    net.output(y, "y")
    network = optimize(net, [Choosing("First"), Choosing("Second")], require={"bn": "Second"})
    assert homes(network) == {"conv": "Second"}


def test_without_fallback_every_layer_must_run_on_the_first() -> None:
    first, second = Choosing("First", only("Convolution2d")), Choosing("Second")
    with pytest.raises(PlacementError) as caught:
        optimize(small(), [first, second], fallback=False)
    assert caught.value.code is ErrorCode.PLACEMENT_FORBIDDEN
    assert sorted(caught.value.details["refusals"]) == ["last", "soft"]
    assert second.asked == []
    network = optimize(small(), [first, second], fallback=False, require={"soft": "Second", "last": "Second"})
    assert homes(network) == {"conv": "First", "soft": "Second", "last": "Second"}


# -- policies --------------------------------------------------------------------------------------


class LastWilling:
    """Asks all, and takes the last that is willing."""

    def choose(self, layer: Layer, answers: Answers) -> Assigned | None:
        return list(answers.willing())[-1]


class Budget:
    """At most one layer on the first backend."""

    def choose(self, layer: Layer, answers: Answers) -> Assigned | None:
        is_full = any(one is answers[0].candidate for other, one in answers.placed.items() if other is not layer)
        return next((one for one in answers.willing() if not (is_full and one is answers[0].candidate)), None)


def test_a_policy_sees_the_answers_of_all_backends_and_asks_no_more_than_it_looks_at() -> None:
    first, second, third = Choosing("First"), Choosing("Second", only("Softmax")), Choosing("Third")
    network = optimize(small(), [first, second, third], policy=LastWilling())
    assert set(homes(network).values()) == {"Third"}
    assert len(first.asked) == len(second.asked) == len(third.asked) > 0
    assert [refusal.backend for refusal in network.placement.layer("last").refusals] == ["Second"]
    asked = len(second.asked)
    optimize(small(), [first, second, third])
    assert len(second.asked) == asked  # the first is willing: the default asks nobody else


def test_a_policy_may_budget_and_the_report_says_so() -> None:
    network = optimize(small(), [Choosing("First"), Choosing("Second")], policy=Budget(), passes=False)
    assert homes(network) == {"conv": "First", "soft": "Second", "last": "Second"}
    assert [row.reason for row in network.placement.layers] == ["first choice", "policy", "policy"]
    with pytest.raises(PlacementError, match="the placement policy keeps it from the layer") as caught:
        optimize(small(), [Choosing("First")], policy=Budget(), passes=False)
    assert caught.value.code is ErrorCode.PLACEMENT_FORBIDDEN


def test_a_policy_that_chooses_who_refused_is_an_error() -> None:
    class Stubborn:
        def choose(self, layer: Layer, answers: Answers) -> Assigned | None:
            return answers[-1].candidate

    with pytest.raises(OptionError, match="gives layer 'soft' to <Assigned Second>, which is not willing"):
        optimize(small(), [Choosing("First"), Choosing("Second", only("Convolution2d"))], policy=Stubborn())


def test_a_request_is_one_record_and_unknown_names_are_errors() -> None:
    request = CompileRequest.of({"backends": "CpuRef", "shapes": None, "passes": False})
    assert (request.backends, request.shapes, request.passes, request.fallback) == ("CpuRef", {}, False, True)
    assert CompileRequest.of(request) is request
    with pytest.raises(OptionError, match="optimize has no argument 'fallbak'") as caught:
        optimize(small(), ["CpuRef"], fallbak=False)
    assert "fallback" in str(caught.value.hint)
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.passes = True  # type: ignore[misc]  # what is tested
