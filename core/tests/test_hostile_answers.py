"""Backends in Python that answer nonsense, and callers that ask for it: every error is typed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail import (
    Backend,
    BackendError,
    BackendId,
    Device,
    DovetailError,
    ErrorCode,
    IBackend,
    IWorkloadFactory,
    Network,
    OptimizationViews,
    OptionError,
    Support,
)
from dovetail.optimizer.options import build_options


class Relu:
    def execute(self, inputs: Any, outputs: Any) -> None:
        np.maximum(inputs[0], 0, out=outputs[0])


class Factory(IWorkloadFactory):
    def create_workload(self, layer: Any) -> Any:
        return Relu()


class Plain(IBackend):
    manifest = {"claims": {"dovetail.Activation": [{"dtypes": ["float32"]}]}}  # noqa: RUF012 - as a vendor writes it
    id = property(lambda self: BackendId("Plain"))

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        return Factory()


def network() -> Network:
    made = Network("net")
    made.output(made.relu(made.input("x", (4,)), name="relu"), "y")
    return made


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        (lambda: (Device(index) for index in itertools.count()), "gave more than 4096 devices"),
        (lambda: [Device(facts={"driver": None})], "the fact 'driver': None"),  # type: ignore[dict-item]  # as a vendor may err
        (lambda: [Device(facts={"driver": (1, 2)})], r"the fact 'driver': \(1, 2\)"),  # type: ignore[dict-item]  # so here
        (lambda: [Device(facts={5: 1})], "the fact 5: 1"),  # type: ignore[dict-item]  # and here
    ],
)
def test_devices_end_and_their_facts_can_be_kept(devices: Any, said: str) -> None:
    class Odd(Plain):
        def devices(self) -> Any:
            return devices()

    with pytest.raises(BackendError, match=said) as caught:
        dovetail.load(network(), [Odd()])
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT
    assert "Plain" in caught.value.message


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"backends": 5}, "backends=5 is neither a backend nor a list"),
        ({"backends": [Plain()], "options": 5}, "options=5 is no mapping"),
        ({"backends": [Plain()], "options": []}, r"options=\[\] is no mapping"),
        ({"backends": [Plain()], "options": {"Plain": 5}}, "options of backend Plain must be a mapping"),
    ],
)
def test_what_a_caller_got_wrong_is_said(arguments: Any, said: str) -> None:
    with pytest.raises(OptionError, match=said) as caught:
        dovetail.load(network(), **arguments)
    assert caught.value.code is ErrorCode.OPTION_INVALID


@pytest.mark.parametrize("name", ["host", "core", "Host", "CORE"])
def test_no_backend_has_a_name_of_the_core(name: str) -> None:
    with pytest.raises(BackendError, match="belongs to the core") as caught:
        BackendId(name)
    assert caught.value.code is ErrorCode.BACKEND_ID_INVALID


class Speed(Enum):
    FAST = "fast"


@dataclass(frozen=True)
class Annotated:
    """Options whose annotations only a type checker can resolve."""

    speed: Elsewhere = Speed.FAST  # type: ignore[name-defined]  # noqa: F821 - that is what is tested
    artefacts: str = ""


class Choosing(Plain):
    options_type = Annotated


def test_text_for_an_enum_becomes_its_member_whatever_the_annotation() -> None:
    assert build_options(Choosing(), {"speed": "fast"}).speed is Speed.FAST
    with pytest.raises(OptionError, match="option 'speed' of backend Plain is 'slow'"):
        build_options(Choosing(), {"speed": "slow"})


@pytest.mark.parametrize("options", [{"artefacts": "a\0b"}, Annotated(artefacts="a\0b")])
def test_a_folder_with_a_nul_is_refused_before_anything_is_placed(options: Any) -> None:
    with pytest.raises(OptionError, match=r"option 'artefacts' of backend Plain is 'a\\x00b'") as caught:
        dovetail.load(network(), [Choosing()], options={"Plain": options})
    assert caught.value.details["option"] == "artefacts"


def failing(message: str, *, method: str) -> IBackend:
    def fail(*_: Any) -> Any:
        raise ValueError(message)

    class Failing(Plain):
        def supports(self, layer: Any, options: Any, device: Any) -> Support:
            return Support.no("odd", message) if method == "supports" else super().supports(layer, options, device)

        def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
            factory = Factory()
            if method == "create_workload":
                factory.create_workload = fail  # type: ignore[method-assign, assignment]  # the fault of this backend
            return factory

    return Failing()


@pytest.mark.parametrize("method", ["supports", "create_workload"])
def test_text_of_a_backend_is_fit_to_print(method: str) -> None:
    with pytest.raises(DovetailError) as caught:
        dovetail.load(network(), [failing("red \033[31m\a\n" + "x" * 1_000_000, method=method)])
    assert r"red \x1b[31m\x07\n" in caught.value.message
    assert caught.value.message.replace("\n", "").isprintable()
    assert len(caught.value.message) < 5000


def whole() -> IBackend:
    """A backend that takes a part and cannot compile it."""

    def compile(factory: Any) -> Any:
        raise RuntimeError("the compiler failed")

    class Whole(Backend):
        manifest = Plain.manifest
        id = property(lambda self: BackendId("Whole"))

        def optimize_subgraph(self, view: Any, options: Any, device: Any) -> OptimizationViews:
            answer = OptimizationViews(view)
            answer.compile_whole(view, compile)
            return answer

    return Whole()


@pytest.mark.parametrize("arguments", [{"backends": [whole()]}, {"backends": [whole(), Plain()], "fallback": False}])
def test_a_part_that_cannot_be_compiled_says_so(arguments: Any, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(BackendError, match="the compiler failed") as caught:
        dovetail.load(network(), **arguments)
    assert caught.value.code is ErrorCode.COMPILE_FAILED
    assert "supports()" not in str(caught.value)
    assert "placed anew" not in caplog.text


def test_a_part_that_cannot_be_compiled_goes_to_the_next_backend(caplog: pytest.LogCaptureFixture) -> None:
    with dovetail.load(network(), [whole(), Plain()]) as loaded:
        assert loaded.run({"x": np.array([-1, 2, -3, 4], np.float32)})["y"].tolist() == [0, 2, 0, 4]
    assert "backend Whole could not compile relu, which is placed anew" in caplog.text


class Rebinding(Relu):
    def execute(self, inputs: Any, outputs: Any) -> None:
        outputs[0] = np.maximum(inputs[0], 0)


class Generating(Relu):
    def execute(self, inputs: Any, outputs: Any) -> Any:
        yield np.maximum(inputs[0], 0, out=outputs[0])


class Awaited:
    async def execute(self, inputs: Any, outputs: Any) -> None:
        np.maximum(inputs[0], 0, out=outputs[0])


@pytest.mark.parametrize(
    ("workload", "code", "said"),
    [
        (Rebinding(), ErrorCode.STEP_FAILED, r"replaced outputs\[0\], which writes nothing"),
        (Generating(), ErrorCode.BACKEND_CONTRACT, "is async or a generator"),
        (Awaited(), ErrorCode.BACKEND_CONTRACT, "is async or a generator"),
    ],
)
def test_outputs_that_are_not_written_are_an_error(workload: Any, code: ErrorCode, said: str) -> None:
    class Odd(Plain):
        def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
            factory = Factory()
            factory.create_workload = lambda layer: workload  # type: ignore[method-assign]  # the fault of this backend
            return factory

    with pytest.raises(DovetailError, match=said) as caught, dovetail.load(network(), [Odd()]) as loaded:
        loaded.run({"x": np.zeros(4, np.float32)})
    assert caught.value.code is code
    assert "Plain" in caught.value.message
