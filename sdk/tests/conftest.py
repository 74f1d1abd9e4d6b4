from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dovetail import BackendId, IBackend, IWorkloadFactory, Layer, Support
from dovetail.discovery.registry import default_registry

Invoke = Callable[..., Result]


@pytest.fixture
def dovetail() -> Invoke:
    """Run the command line in this process; an exception that gets out fails the test."""
    from dovetail_sdk.cli import main

    def invoke(*arguments: object, environment: dict[str, str] | None = None) -> Result:
        result = CliRunner().invoke(main, [str(argument) for argument in arguments], env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


class Addition:
    def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
        np.add(inputs[0], inputs[1], out=outputs[0])


class FussyFactory(IWorkloadFactory):
    def create_workload(self, layer: Layer) -> Addition:
        return Addition()


class FussyBackend(IBackend):
    id = BackendId("Fussy")

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        operation = getattr(layer.descriptor, "operation", None)
        return Support.yes() if str(operation) == "add" else Support.no("kind", "it only adds")

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> FussyFactory:
        return FussyFactory()


@pytest.fixture
def fussy() -> Iterator[str]:
    """A backend that only adds."""
    default_registry().register(FussyBackend())
    yield "Fussy"
    default_registry().unregister("Fussy")
