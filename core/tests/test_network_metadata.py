"""Test that what a model file says of itself goes with its network, read-only."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail import ErrorCode, GraphError, LimitError, Limits, LoadedNetwork, Network
from dovetail.ground.limits import limited

SAID = {"producer": "Initech 1.0", "metadata_props.names": "{0: 'cat'}", "": "an empty name is one, too"}


def network_of(metadata: Any = SAID, *, size: int | str = 2, remembers: bool = False) -> Network:
    network = Network("small")
    x = network.input("x", (size,))
    if remembers:
        x = network.addition(x, network.state("before", (size,)))
        network.write_state("before", x)
    network.output(network.relu(x, name="act"), "y")
    network.metadata = metadata
    return network


def test_it_is_read_only() -> None:
    network = network_of()
    assert network.metadata == SAID
    assert dict(network.metadata) == SAID
    changing: Any = network.metadata
    with pytest.raises(TypeError):
        changing["producer"] = "me"
    given = dict(SAID)
    network.metadata = given
    given["producer"] = "me"
    assert network.metadata == SAID
    assert Network("other").metadata == {}


@pytest.mark.parametrize("wrong", [None, "text", 1, {"a": 1}, {1: "a"}, {"a": b"b"}, [("a", "b")]])
def test_what_is_no_text_by_name_is_refused(wrong: Any) -> None:
    network = network_of()
    with pytest.raises(GraphError, match="metadata") as caught:
        network.metadata = wrong
    assert caught.value.code is ErrorCode.ATTRIBUTE_INVALID
    assert network.metadata == SAID


@pytest.mark.parametrize("copied", [lambda one: one.copy(), copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_have_it(copied: Any) -> None:
    assert copied(network_of()).metadata == SAID


@pytest.mark.parametrize("said", [{"a": "x" * 5000}, {f"{number}": "" for number in range(50)}, {"x" * 5000: ""}])
def test_limits_count_it(said: dict[str, str]) -> None:
    network = network_of()
    with limited(Limits(memory=4000)), pytest.raises(LimitError, match="what the file says of itself") as caught:
        network.metadata = said
    assert caught.value.details["limit"] == "memory"


@pytest.mark.parametrize("size", [2, "N"])
@pytest.mark.parametrize("remembers", [False, True])
def test_loaded_networks_have_it(size: int | str, *, remembers: bool) -> None:
    network = network_of(size=size, remembers=remembers)
    with dovetail.load(network, "CpuRef") as net:
        assert net.metadata == SAID
        network.metadata = {}  # the network's own; it is the caller's
        assert net.metadata == SAID
        changing: Any = net.metadata
        with pytest.raises(TypeError):
            changing["producer"] = "me"
        net.run({"x": np.ones(2, np.float32)})
        assert net.with_outputs(["act"]).metadata == SAID


def test_optimized_networks_bring_it_along() -> None:
    with dovetail.Runtime(threads=1) as runtime:
        net: LoadedNetwork = runtime.load(dovetail.optimize(network_of(), "CpuRef"))
        assert net.metadata == SAID
        net.unload()
        assert net.metadata == SAID
