"""`Backend`: the id and what is taken come from the manifest, workloads from `kernels`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail import BackendError, ErrorCode, Network

PACKAGE = """
import numpy as np
from dovetail import Backend

class Relu:
    def execute(self, inputs, outputs):
        np.maximum(inputs[0], 0, out=outputs[0])

class Small(Backend):
    kernels = {"dovetail.Activation": lambda layer: Relu()}
"""
MANIFEST = {
    "id": "CpuSmallest",
    "device": "cpu",
    "rank": 1,
    "description": "ReLU",
    "claims": {"dovetail.Activation": [{"dtypes": ["float32"], "where": {"function": "relu"}}]},
}


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the package, with the manifest beside it that a test asks for."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(manifest: Any = MANIFEST) -> Any:
        folder = tmp_path / "smallest_backend"
        folder.mkdir()
        (folder / "__init__.py").write_text(PACKAGE)
        if manifest is not None:
            (folder / "dovetail-backend.json").write_text(json.dumps(manifest))
        monkeypatch.delitem(sys.modules, "smallest_backend", raising=False)
        from importlib import import_module

        return import_module("smallest_backend").Small()

    return write


def network(function: str = "relu") -> Network:
    made = Network("one")
    made.output(made.activation(made.input("x", (3,)), function), name="y")
    return made


def test_a_manifest_and_kernels_are_a_backend(small: Any) -> None:
    backend = small()
    assert backend.id == "CpuSmallest"
    with dovetail.load(network(), [backend]) as net:
        np.testing.assert_array_equal(net.run({"x": np.float32([-1, 0, 2])})["y"], [0, 0, 2])


def test_what_is_not_claimed_is_refused_with_a_sentence(small: Any) -> None:
    with pytest.raises(dovetail.PlacementError, match="function"):
        dovetail.load(network("tanh"), [small()])


def test_a_claim_without_a_kernel_is_named(small: Any) -> None:
    backend = small()
    type(backend).kernels = {}
    with pytest.raises(BackendError, match=r"takes layers of kind dovetail\.Activation and has no kernel") as raised:
        dovetail.load(network(), [backend])
    assert "kernels" in (raised.value.hint or "")


@pytest.mark.parametrize("manifest", [None, [MANIFEST, {**MANIFEST, "id": "Other"}]], ids=["none", "several"])
def test_an_id_that_no_manifest_gives_is_an_error(small: Any, manifest: Any) -> None:
    with pytest.raises(BackendError, match="not of one") as raised:
        _ = small(manifest).id
    assert raised.value.code == ErrorCode.BACKEND_CONTRACT
