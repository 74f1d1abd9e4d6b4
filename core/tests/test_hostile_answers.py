"""Backends in Python that answer nonsense, and callers that ask for it: every error is typed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail import BackendError, BackendId, Device, ErrorCode, IBackend, IWorkloadFactory, Network


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
