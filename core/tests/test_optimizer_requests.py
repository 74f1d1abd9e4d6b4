"""What an optimization may be asked for: backends, their devices and options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fakes.backends import Choosing, only
from fakes.placements import homes, small

from dovetail import Device, Network
from dovetail.contract.backend_id import BackendId
from dovetail.contract.interfaces import IBackend
from dovetail.ground.errors import BackendError, BackendUnavailableError, ErrorCode, GraphError, OptionError, PlacementError
from dovetail.optimizer import build_options, optimize


class Registry:
    """Knows some backends, and two that are not ready."""

    def __init__(self, *backends: IBackend) -> None:
        self.backends = {backend.id: backend for backend in backends}

    def get(self, id: BackendId) -> IBackend:
        if id in self.backends:
            return self.backends[id]
        raise BackendUnavailableError(f"backend {id} is not installed", state="not_installed")

    def default_preferences(self) -> Sequence[BackendId]:
        return (BackendId("Gone"), *self.backends)


class TwoDevices(Choosing):
    def devices(self) -> Sequence[Device]:
        return (Device(0, "npu0"), Device(1, "npu1"))


def test_ids_are_looked_up_and_optional_ones_may_be_absent() -> None:
    registry = Registry(Choosing("First"))
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
    network = optimize(small(), registry=Registry(Choosing("First"), Choosing("Second")))
    assert set(homes(network).values()) == {"First"}
    assert [str(one.request) for one in network.placement.absent] == ["Gone?"]


def test_a_default_is_opened_when_those_before_it_refuse_something(caplog: pytest.LogCaptureFixture) -> None:
    class Counting(Registry):
        opened: ClassVar[list[str]] = []

        def get(self, id: BackendId) -> IBackend:
            self.opened.append(str(id))
            return super().get(id)

        def default_preferences(self) -> Sequence[BackendId]:
            return (*self.backends, BackendId("Gone"), BackendId("Last"))

    registry = Counting(Choosing("First"), Choosing("Second"))
    network = optimize(small(), registry=registry)
    assert registry.opened == ["First"]
    assert network.placement.absent == ()

    registry = Counting(Choosing("First", only("Convolution2d")), Choosing("Second"))
    registry.opened.clear()
    assert set(homes(optimize(small(), registry=registry)).values()) == {"First", "Second"}
    assert registry.opened == ["First", "Second"]

    registry = Counting(Choosing("First", only("Convolution2d")))
    with pytest.raises(PlacementError, match=r"Gone: \[absent\] backend Gone is not installed"):
        optimize(small(), registry=registry)
    assert "Gone is left out: backend Gone is not installed" in caplog.text


def test_options_of_a_default_are_looked_at_at_once() -> None:
    registry = Registry(Choosing("First"), Choosing("Second"))
    with pytest.raises(OptionError):
        optimize(small(), registry=registry, options={"Second": {"speed": 3}})


def test_devices_are_told_apart() -> None:
    registry = Registry(TwoDevices("Npu"))
    network = optimize(small(), ["Npu:1", "Npu"], registry=registry, require={"soft": "Npu:0"})
    assert [(n, a.request.device) for n, a in network.assignment.items() if a] == [("conv", 1), ("soft", 0), ("last", 1)]
    with pytest.raises(BackendUnavailableError, match="no device 2") as caught:
        optimize(small(), ["Npu:2"], registry=registry)
    assert caught.value.details["state"] == "no_device"


@pytest.mark.parametrize("backends", [[], ["First", "First"], ["First", Choosing("First")]])
def test_lists_that_mean_nothing_are_refused(backends: list[Any]) -> None:
    with pytest.raises(OptionError):
        optimize(small(), backends, registry=Registry(Choosing("First")))


def test_a_bad_id_is_refused() -> None:
    with pytest.raises(BackendError) as caught:
        optimize(small(), ["1st"], registry=Registry())
    assert caught.value.code is ErrorCode.BACKEND_ID_INVALID


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


class Configurable(Choosing):
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
    class Broken(Choosing):
        options_type: ClassVar[type] = dict

    with pytest.raises(BackendError) as caught:
        optimize(small(), [Broken("Broken")])
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT


def test_the_report_tells_once_what_is_known_of_each_device() -> None:
    class Two(Choosing):
        def devices(self) -> Sequence[Device]:
            large = Device(1, "npu1", 1 << 30, half_precision=True, revision="B1", facts={"tiles": 4, "driver": "535.1"})
            return (Device(0, "npu0", half_precision=False), large)

    placement = optimize(small(), [Two("Npu"), "Npu:1"], registry=Registry(Two("Npu")), require={"soft": "Npu:1"}).placement
    lines = [line for line in placement.explain().splitlines() if line.startswith("device ")]
    assert lines == [
        "device Npu: npu0, no half precision",
        "device Npu:1: npu1, 1073741824 bytes of memory, half precision, revision B1, driver 535.1, tiles 4",
    ]
    assert [(one["backend"], one["facts"]) for one in placement.to_dict()["devices"]] == [
        ("Npu", {}),
        ("Npu:1", {"driver": "535.1", "tiles": 4}),
    ]


def test_sizes_of_inputs_are_integers_or_the_open_one_is_named() -> None:
    net = Network("open")
    net.output(net.relu(net.input("x", ("N", 3))), "y")
    (spec,) = optimize(net, [Choosing("First")], shapes={"N": 2}).inputs
    assert spec.shape == ("N", 3)
    with pytest.raises(GraphError, match="'x' has the open size N") as caught:
        _ = spec.sizes
    assert caught.value.code is ErrorCode.SHAPE_UNKNOWN
    fixed = Network("fixed")
    fixed.output(fixed.relu(fixed.input("x", (2, 3))), "y")
    assert optimize(fixed, [Choosing("First")]).inputs[0].sizes == (2, 3)
