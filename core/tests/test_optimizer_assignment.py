"""Which backend gets which layer, and what is said about it."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from dovetail import Device
from dovetail.contract.backend_id import BackendId
from dovetail.contract.interfaces import Capabilities, IBackend, Support
from dovetail.graph.descriptor import Descriptor
from dovetail.graph.layer import Layer
from dovetail.graph.tensor import DType, TensorInfo
from dovetail.ground.errors import BackendError, BackendUnavailableError, DovetailError, ErrorCode, OptionError, PlacementError
from dovetail.layers import ElementwiseBinary
from dovetail.layers.network import Network
from dovetail.optimizer import Answers, Assigned, CompileRequest, OptimizedNetwork, build_options, optimize

Answer = Callable[[Layer], Any]


class Backend(IBackend):
    """Takes what `answer` says; by default everything."""

    def __init__(self, id: str, answer: Answer = lambda layer: Support.yes(), **capabilities: bool) -> None:
        self._id = BackendId(id)
        self.answer = answer
        self.asked: list[str] = []
        self._capabilities = Capabilities(**capabilities)

    @property
    def id(self) -> BackendId:
        return self._id

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        self.asked.append(layer.name)
        result: Support = self.answer(layer)
        return result

    def create_workload_factory(self, *arguments: Any) -> Any:
        raise NotImplementedError

    def capabilities(self) -> Capabilities:
        return self._capabilities


def only(*kinds: str) -> Answer:
    """Take these kinds; refuse others with a reason."""
    return lambda layer: (
        Support.yes() if layer.kind.rsplit(".", 1)[-1] in kinds else Support.no("kind", f"no {layer.kind} here", "kind")
    )


def small() -> Network:
    net = Network("small")
    x = net.input("x", (1, 3, 4, 4))
    y = net.convolution2d(x, np.ones((2, 3, 1, 1), np.float32), name="conv")
    y = net.softmax(y, name="soft")
    net.output(net.sigmoid(y, name="last"), "y")
    return net


def homes(network: OptimizedNetwork) -> dict[str, str]:
    return {name: "core" if one is None else str(one.backend.id) for name, one in network.assignment.items()}


# -- the rule --------------------------------------------------------------------------------------


def test_the_first_that_takes_it() -> None:
    first, second = Backend("First", only("Convolution2d")), Backend("Second")
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
        optimize(small(), [Backend("First", only("Convolution2d")), Backend("Second", only("Convolution2d"))])
    error = caught.value
    assert error.code is ErrorCode.NO_BACKEND_FOR_LAYER
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
        network = optimize(small(), [Backend("Bad", answer), Backend("Good")])
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

    network = optimize(small(), [Backend("Bad", answer), Backend("Good")])
    assert homes(network) == {"conv": "Good", "soft": "Good", "last": "Good"}
    refusal = network.placement.layer("conv").refusals[0]
    assert (refusal.backend, refusal.code) == ("Bad", "contract")
    assert ("and more" if raises else "changed the layer that it was asked about") in refusal.reason
    network.graph.validate()
    sound = optimize(small(), [Backend("Good")])
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


class Newer(Backend):
    kind_versions: ClassVar[dict[str, int]] = {"acme.Swish": 2}


def test_newer_attributes_are_refused_for_old_backends() -> None:
    def network(gamma: float) -> Network:
        net = Network()
        net.output(net.add(Swish(gamma=gamma), net.input("x", (2,)), name="swish").output, "y")
        return net

    old, new = Backend("Old"), Newer("New")
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

    assert homes(optimize(small(), [Backend("First", answer), Backend("Second")]))["soft"] == "First"


# -- constraints -----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["soft", "so*", "dovetail.Softmax", "Softmax"])
def test_require_by_name_glob_or_kind(key: str) -> None:
    network = optimize(small(), [Backend("First"), Backend("Second")], require={key: "Second"})
    assert homes(network) == {"conv": "First", "soft": "Second", "last": "First"}
    assert network.placement.layer("soft").reason == "required"
    assert network.placement.fallbacks == ()


@pytest.mark.parametrize("ids", ["First", ["First"], ("First",)])
def test_forbid(ids: Any) -> None:
    network = optimize(small(), [Backend("First"), Backend("Second")], forbid={"soft": ids})
    assert homes(network) == {"conv": "First", "soft": "Second", "last": "First"}
    refusal = network.placement.layer("soft").refusals[0]
    assert refusal.code == "forbidden"
    assert "forbid={'soft': 'First'}" in refusal.reason


def test_the_more_specific_requirement_counts() -> None:
    constraints = {"Softmax": "First", "s*": "Second", "soft": "Third"}
    backends = [Backend("First"), Backend("Second"), Backend("Third")]
    assert homes(optimize(small(), backends, require=constraints))["soft"] == "Third"
    with pytest.raises(OptionError, match="pinned twice"):
        optimize(small(), backends, require={"s*": "First", "*t": "Second"})


def test_a_requirement_that_cannot_be_met_is_an_error() -> None:
    with pytest.raises(PlacementError) as caught:
        optimize(small(), [Backend("First"), Backend("Second", only("Convolution2d"))], require={"soft": "Second"})
    assert caught.value.code is ErrorCode.PLACEMENT_FORBIDDEN
    assert [r.code for r in caught.value.details["refusals"]["soft"]] == ["required", "kind"]
    with pytest.raises(PlacementError, match="forbid"):
        optimize(small(), [Backend("First")], forbid={"*": "First"})


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
        optimize(small(), [Backend("First")], **constraint)
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
        optimize(small(), [Backend("First")], **{option: constraint})
    assert caught.value.code is ErrorCode.OPTION_INVALID
    assert message in caught.value.message
    assert caught.value.hint


def test_constraints_follow_layers_that_were_folded_into_others() -> None:
    net = Network()
    y = net.convolution2d(net.input("x", (1, 1, 2, 2)), np.ones((1, 1, 1, 1), np.float32), name="conv")
    y = net.batch_normalization(y, *(np.ones(1, np.float32) for _ in range(4)), name="bn")
    net.output(y, "y")
    network = optimize(net, [Backend("First"), Backend("Second")], require={"bn": "Second"})
    assert homes(network) == {"conv": "Second"}


def test_without_fallback_every_layer_must_run_on_the_first() -> None:
    first, second = Backend("First", only("Convolution2d")), Backend("Second")
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
    first, second, third = Backend("First"), Backend("Second", only("Softmax")), Backend("Third")
    network = optimize(small(), [first, second, third], policy=LastWilling())
    assert set(homes(network).values()) == {"Third"}
    assert len(first.asked) == len(second.asked) == len(third.asked) > 0
    assert [refusal.backend for refusal in network.placement.layer("last").refusals] == ["Second"]
    asked = len(second.asked)
    optimize(small(), [first, second, third])
    assert len(second.asked) == asked  # the first is willing: the default asks nobody else


def test_a_policy_may_budget_and_the_report_says_so() -> None:
    network = optimize(small(), [Backend("First"), Backend("Second")], policy=Budget(), passes=False)
    assert homes(network) == {"conv": "First", "soft": "Second", "last": "Second"}
    assert [row.reason for row in network.placement.layers] == ["first choice", "policy", "policy"]
    with pytest.raises(PlacementError, match="the placement policy keeps it from the layer") as caught:
        optimize(small(), [Backend("First")], policy=Budget(), passes=False)
    assert caught.value.code is ErrorCode.PLACEMENT_FORBIDDEN


def test_a_policy_that_chooses_who_refused_is_an_error() -> None:
    class Stubborn:
        def choose(self, layer: Layer, answers: Answers) -> Assigned | None:
            return answers[-1].candidate

    with pytest.raises(OptionError, match="gives layer 'soft' to <Assigned Second>, which is not willing"):
        optimize(small(), [Backend("First"), Backend("Second", only("Convolution2d"))], policy=Stubborn())


def test_a_request_is_one_record_and_unknown_names_are_errors() -> None:
    request = CompileRequest.of({"backends": "CpuRef", "shapes": None, "passes": False})
    assert (request.backends, request.shapes, request.passes, request.fallback) == ("CpuRef", {}, False, True)
    assert CompileRequest.of(request) is request
    with pytest.raises(OptionError, match="optimize has no argument 'fallbak'") as caught:
        optimize(small(), ["CpuRef"], fallbak=False)
    assert "fallback" in str(caught.value.hint)
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.passes = True  # type: ignore[misc]  # what is tested


# -- the list of backends --------------------------------------------------------------------------


class Registry:
    """Knows some backends, and two that are not ready."""

    def __init__(self, *backends: IBackend) -> None:
        self.backends = {backend.id: backend for backend in backends}

    def get(self, id: BackendId) -> IBackend:
        if id in self.backends:
            return self.backends[id]
        raise BackendUnavailableError(f"backend {id} is not installed", state="not_installed")

    def default_preferences(self) -> Sequence[BackendId]:
        return (*self.backends, BackendId("Gone"))


class TwoDevices(Backend):
    def devices(self) -> Sequence[Device]:
        return (Device(0, "npu0"), Device(1, "npu1"))


def test_ids_are_looked_up_and_optional_ones_may_be_absent() -> None:
    registry = Registry(Backend("First"))
    network = optimize(small(), ["Gone?", "First"], registry=registry)
    assert set(homes(network).values()) == {"First"}
    absent = network.placement.absent[0]
    assert (str(absent.request), absent.state) == ("Gone?", "not_installed")
    assert "absent: Gone? (not_installed)" in network.placement.explain()
    with pytest.raises(BackendUnavailableError, match="not installed"):
        optimize(small(), ["Gone", "First"], registry=registry)
    with pytest.raises(BackendUnavailableError, match="none of the backends"):
        optimize(small(), ["Gone?"], registry=registry)


def test_without_a_list_the_registry_prefers() -> None:
    network = optimize(small(), registry=Registry(Backend("First"), Backend("Second")))
    assert set(homes(network).values()) == {"First"}
    assert [str(one.request) for one in network.placement.absent] == ["Gone?"]


def test_devices_are_told_apart() -> None:
    registry = Registry(TwoDevices("Npu"))
    network = optimize(small(), ["Npu:1", "Npu"], registry=registry, require={"soft": "Npu:0"})
    assert [(n, a.request.device) for n, a in network.assignment.items() if a] == [("conv", 1), ("soft", 0), ("last", 1)]
    with pytest.raises(BackendUnavailableError, match="no device 2") as caught:
        optimize(small(), ["Npu:2"], registry=registry)
    assert caught.value.details["state"] == "no_device"


@pytest.mark.parametrize("backends", [[], ["First", "First"], ["First", Backend("First")]])
def test_lists_that_mean_nothing_are_refused(backends: list[Any]) -> None:
    with pytest.raises(OptionError):
        optimize(small(), backends, registry=Registry(Backend("First")))


def test_a_bad_id_is_refused() -> None:
    with pytest.raises(BackendError) as caught:
        optimize(small(), ["1st"], registry=Registry())
    assert caught.value.code is ErrorCode.BACKEND_ID_INVALID


# -- options ---------------------------------------------------------------------------------------


class Mode(StrEnum):
    FAST = "fast"
    EXACT = "exact"


@dataclass(frozen=True)
class Options:
    threads: int = 4
    ratio: float = 0.5
    mode: Mode = Mode.FAST
    cache: Path | None = None
    sizes: tuple[int, ...] = ()
    verbose: bool = False

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ValueError("threads must be at least 1")


class Configurable(Backend):
    options_type: ClassVar[type] = Options


def test_options_are_built_and_reach_the_layers() -> None:
    given = {"threads": 2, "ratio": 1, "mode": "exact", "cache": "cache", "sizes": [1, 2]}
    wanted = Options(2, 1.0, Mode.EXACT, Path("cache"), (1, 2))
    assert build_options(Configurable("Conf"), given) == wanted
    assert build_options(Configurable("Conf"), wanted) is wanted
    network = optimize(small(), [Configurable("Conf")], options={"Conf": given})
    assert network.assignment["conv"].options == wanted  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ({"thread": 2}, ErrorCode.OPTION_UNKNOWN, "did you mean 'threads'"),
        ({"threads": "2"}, ErrorCode.OPTION_INVALID, "expected int"),
        ({"threads": True}, ErrorCode.OPTION_INVALID, "expected int"),
        ({"verbose": 1}, ErrorCode.OPTION_INVALID, "expected bool"),
        ({"mode": "slow"}, ErrorCode.OPTION_INVALID, "one of 'fast', 'exact'"),
        ({"sizes": [1, "a"]}, ErrorCode.OPTION_INVALID, "sizes"),
        ({"cache": 5}, ErrorCode.OPTION_INVALID, "Path or NoneType"),
        ({"threads": 0}, ErrorCode.OPTION_INVALID, "at least 1"),
        (7, ErrorCode.OPTION_INVALID, "must be a mapping"),
    ],
)
def test_bad_options_are_refused(given: Any, code: ErrorCode, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        optimize(small(), [Configurable("Conf")], options={"Conf": given})
    assert caught.value.code is code
    assert message in str(caught.value)


def test_options_for_a_backend_that_was_not_asked_for_are_refused() -> None:
    with pytest.raises(OptionError, match="did you mean 'Conf'"):
        optimize(small(), [Configurable("Conf")], options={"Cnof": {}})


def test_options_that_are_no_dataclass_are_the_backends_fault() -> None:
    class Broken(Backend):
        options_type: ClassVar[type] = dict

    with pytest.raises(BackendError) as caught:
        optimize(small(), [Broken("Broken")])
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT


# -- folding activations ---------------------------------------------------------------------------


def activated(function: str = "relu", dtype: DType = DType.FLOAT32) -> Network:
    net = Network()
    y = net.addition(net.input("x", (4,), dtype), net.input("z", (4,), dtype), name="add")
    net.output(net.activation(y, function, name="act"), "y")
    return net


def test_an_activation_is_folded_where_the_backend_takes_it() -> None:
    network = optimize(activated(), [Backend("First")])
    assert homes(network) == {"add": "First"}
    layer = network.graph.layer("add")
    assert isinstance(layer.descriptor, ElementwiseBinary)
    assert layer.descriptor.activation == "relu"
    assert layer.sources == ("add", "act")
    assert network.placement.layer("act").name == "add"


def test_an_activation_stays_where_the_backend_refuses() -> None:
    def answer(layer: Layer) -> Support:
        fused = getattr(layer.descriptor, "activation", None) is not None
        return Support.no("attribute", "no folded activation", "activation") if fused else Support.yes()

    network = optimize(activated(), [Backend("First", answer)])
    assert homes(network) == {"add": "First", "act": "First"}
    assert getattr(network.graph.layer("add").descriptor, "activation", None) is None


def test_folding_may_save_a_fallback_but_respects_constraints() -> None:
    first, second = Backend("First", only("ElementwiseBinary")), Backend("Second")
    assert homes(optimize(activated(), [first])) == {"add": "First"}, "the activation alone would have no home"
    assert homes(optimize(activated(), [first, second])) == {"add": "First"}
    apart = homes(optimize(activated(), [first, second], require={"act": "Second"}))
    assert apart == {"add": "First", "act": "Second"}
    assert "act" in homes(optimize(activated(), [Backend("Any"), second], forbid={"act": "Any"}))


def test_some_activations_are_not_folded() -> None:
    assert "act" in homes(optimize(activated("mish"), [Backend("First")]))
    assert "act" in homes(optimize(activated("relu", DType.INT32), [Backend("First")]))
    assert "act" in homes(optimize(activated(), [Backend("First")], passes=False))


# -- 16-bit floats ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_layers_are_converted_where_their_backend_asks_for_it(dtype: DType) -> None:
    half = Backend("Half", only("Convolution2d", "Cast", "Activation"), **{dtype.label: True})
    network = optimize(small(), [half, Backend("Full")], reduce_float=dtype.label)
    kinds = {name: network.graph.layer(name) for name in network.assignment}
    assert kinds["conv"].output.dtype is dtype
    assert kinds["conv"].input_infos[1] == kinds["conv"].input_infos[1].with_dtype(dtype)  # type: ignore[union-attr]
    assert kinds["soft"].output.dtype is DType.FLOAT32
    assert kinds["last"].output.dtype is dtype
    assert [layer.kind.rsplit(".", 1)[-1] for layer in network.graph.topological_order()].count("Cast") == 4
    assert network.outputs[0].dtype is DType.FLOAT32
    assert network.graph.outputs[0].inputs[0].info.dtype is DType.FLOAT32  # type: ignore[union-attr]


def test_no_cast_stands_between_converted_layers() -> None:
    network = optimize(small(), [Backend("Half", float16=True)], reduce_float="float16")
    casts = [layer.name for layer in network.graph if layer.kind == "dovetail.Cast"]
    assert casts == ["x.to_float16", "last.to_float32"]


def test_nothing_is_converted_without_the_capability_or_against_the_backend() -> None:
    def refuse_half(layer: Layer) -> Support:
        half = any(info is not None and info.dtype is DType.FLOAT16 for info in layer.input_infos)
        return Support.no("dtype", "no float16") if half else Support.yes()

    for backend in (Backend("Plain"), Backend("Liar", refuse_half, float16=True)):
        network = optimize(small(), [backend], reduce_float="float16")
        assert sorted(homes(network)) == ["conv", "last", "soft"]
        assert network.graph.layer("conv").output.dtype is DType.FLOAT32


def test_a_constant_beyond_float16_keeps_its_layer() -> None:
    net = Network()
    net.output(net.addition(net.input("x", (2,)), np.array([1e6, 1], np.float32), name="add"), "y")
    assert homes(optimize(net, [Backend("Half", float16=True)], reduce_float="float16")) == {"add": "Half"}
    assert len(optimize(net, [Backend("Half", bfloat16=True)], reduce_float="bfloat16").assignment) == 3


def test_other_types_are_refused() -> None:
    with pytest.raises(DovetailError, match="reduce_float is 'float8'"):
        optimize(small(), [Backend("First")], reduce_float="float8")
