"""Who asks that a backend runs in a process of its own: the caller, and what its manifest says."""

from __future__ import annotations

import os

import numpy as np
import pytest
from fakes.isolated import Compiling, Faulty
from fakes.isolated_cases import network, registry_of

import dovetail
from dovetail import OptionError, Runtime
from dovetail.discovery.manifest import check
from dovetail.discovery.reasons import Refused
from dovetail.loading import snapshots
from dovetail.optimizer import CompileRequest


@pytest.fixture
def runtime():
    with Runtime(threads=1) as made:
        yield made


def test_the_manifest_asks_and_the_caller_decides(runtime, children):
    manifest = {"id": "Compiling", "device": "npu", "rank": 1, "description": "tells its process", "isolate": True}
    asked = {"backends": ["Compiling:1"], "registry": registry_of(Compiling(), manifest)}
    x = {"x": np.zeros(2, np.float32)}
    isolated = runtime.load(network((2,)), optimize=asked)
    inside = runtime.load(network((2,)), optimize={**asked, "isolate": ()})
    assert children()
    assert isolated.run(x)["y"][0] != np.float32(os.getpid())
    assert inside.run(x)["y"][0] == np.float32(os.getpid())


def test_the_manifest_asks_for_some_options_alone(runtime, children):
    manifest = {"id": "Faulty", "device": "npu", "rank": 1, "description": "multiplies", "isolate": {"factor": [3.0, 5.0]}}
    asked = {"backends": ["Faulty"], "registry": registry_of(Faulty(), manifest)}
    inside = [runtime.load(network(), optimize={**asked, "options": given}) for given in ({}, {"Faulty": {"factor": 4.0}})]
    assert not children()
    isolated = runtime.load(network(), optimize={**asked, "options": {"Faulty": {"factor": 3.0}}})
    assert children()
    x = np.ones((2, 3), np.float32)
    assert [float(net.run({"x": x})["y"][0, 0]) for net in (*inside, isolated)] == [2.0, 4.0, 3.0]


@pytest.mark.parametrize("isolate", [True, {"factor": 3.0}])
def test_a_variable_of_the_manifest_makes_an_exception(runtime, monkeypatch, isolate, children):
    manifest = {"id": "Faulty", "device": "npu", "rank": 1, "description": "multiplies"}
    manifest |= {"isolate": isolate, "isolate_unless": ["FAULTY_APART", "FAULTY_SDK"]}
    asked = {"backends": ["Faulty"], "registry": registry_of(Faulty(), manifest), "options": {"Faulty": {"factor": 3.0}}}
    monkeypatch.setenv("FAULTY_SDK", "/opt/sdk")
    runtime.load(network(), optimize=asked)
    assert not children()
    runtime.load(network(), optimize={**asked, "isolate": "Faulty"}).unload()  # the caller decides
    monkeypatch.setenv("FAULTY_SDK", "")
    isolated = runtime.load(network(), optimize=asked)
    assert children()
    isolated.unload()


@pytest.mark.parametrize("names", ["FAULTY_SDK", [""], [1], ["A\0"]])
def test_exceptions_of_the_manifest_are_names(names):
    manifest = {"id": "Faulty", "device": "npu", "rank": 1, "description": "multiplies", "isolate_unless": names}
    with pytest.raises(Refused, match="'isolate_unless' in the manifest"):
        check(manifest)


def test_a_manifest_says_yes_or_no():
    manifest = {"id": "Compiling", "device": "npu", "rank": 1, "description": "tells its process", "isolate": "yes"}
    with pytest.raises(dovetail.BackendError, match="'isolate' in the manifest must be of type bool or dict"):
        registry_of(Compiling(), manifest)


def test_ids_and_options_that_mean_nothing(runtime):
    with pytest.raises(OptionError, match="isolate names 'Faulti'"):
        runtime.load(network(), optimize={"backends": [Faulty()], "isolate": "Faulti"})
    with pytest.raises(OptionError, match="has no option 'factr'"):
        runtime.load(network(), optimize={"backends": [Faulty()], "isolate": "Faulty", "options": {"Faulty": {"factr": 1}}})


def test_plans_with_an_isolated_backend_are_not_kept():
    assert snapshots._asked(CompileRequest(backends=["Faulty"])) is not None
    assert snapshots._asked(CompileRequest(backends=["Faulty"], isolate=())) is not None
    assert snapshots._asked(CompileRequest(backends=["Faulty"], isolate="Faulty")) is None
