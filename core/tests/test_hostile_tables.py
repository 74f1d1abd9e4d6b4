"""A table of C functions that misbehaves: errors are typed, name it, and are fit to print."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail import BackendError, DovetailError, ErrorCode, Network, OptionError
from dovetail.native import load_backend


@pytest.fixture
def hostile(build: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that opens the backend with a fault."""

    def opened(fault: str) -> Any:
        monkeypatch.setenv("HOSTILE", fault)
        return load_backend(build("hostile.c"))

    return opened


def network() -> Network:
    made = Network("net")
    made.output(made.relu(made.input("x", (4,)), name="relu"), "y")
    return made


def result(backend: Any, **arguments: Any) -> list[float]:
    with dovetail.load(network(), [backend], **arguments) as loaded:
        answer: list[float] = loaded.run({"x": np.array([-1, 2, -3, 4], np.float32)})["y"].tolist()
        return answer


def test_without_a_fault_it_computes(hostile: Any) -> None:
    for fault in ("", "memory", "queue"):
        assert result(hostile(fault)) == [0, 2, 0, 4]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("option bool", "the value of 'tile' is 2, which is neither 0 nor 1"),
        ("option type", "'tile' has type 99, which no option or fact can have"),
        ("option named class", "an option named 'class'"),
        ("option named __init__", "an option named '__init__'"),
        ("option named label", "an option named 'label', which is taken"),
        ("half precision", "half_precision of device 0 is 7"),
        ("fact twice", "states the fact 'lanes' of device 0 twice"),
    ],
)
def test_what_it_states_is_looked_at(hostile: Any, fault: str, said: str) -> None:
    with pytest.raises(BackendError, match=said) as caught:
        result(hostile(fault))
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT
    assert "'Hostile'" in caught.value.message


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("queue create", r"backend 'Hostile' could not create a queue on device 0 \(code 5\)"),
        ("queue wait cancelled", "failed on Hostile: it answered that the run was cancelled, which nobody had asked for"),
        ("run", r"backend 'Hostile', layer 'relu' could not prepare a run \(code 9\)"),
        ("execute cancelled", "failed on Hostile: it answered that the run was cancelled, which nobody had asked for"),
        ("execute text", r"failed on Hostile: red \\x1b\[31m \\x01 \\xff"),
        ("refusal text", r"red \\x1b\[31m \\x01 \\xff"),
        ("workload", r"create_workload\(\) failed: red \\x1b\[31m \\x01 \\xff"),
        ("memory map", r"failed on core, which maps memory of Hostile:0/sram: red \\x1b\[31m"),
        ("memory unmap", "failed on core, which maps memory of Hostile:0/sram: .* could not be unmapped"),
        ("memory alignment", "memory.. says that its alignment is 9223372036854775808; 1073741824 is the largest"),
        ("memory unseen", "lacks create_copy"),
    ],
)
def test_a_failure_names_the_backend_and_is_fit_to_print(hostile: Any, fault: str, said: str) -> None:
    with pytest.raises(DovetailError, match=said) as caught:
        result(hostile(fault))
    assert "Hostile" in caught.value.message
    assert caught.value.message.replace("\n", "").isprintable()
    assert caught.value.code is not ErrorCode.CANCELLED


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("tile", 2**63, "64 bits"),
        ("tile", -(2**63) - 1, "64 bits"),
        ("label", "a\0b", "NUL"),
        ("label", "\ud800", "utf-8"),
        ("artefacts", "a\0b", "'artefacts'"),
    ],
)
def test_an_option_that_cannot_cross_into_c_is_named(hostile: Any, option: str, value: Any, said: str) -> None:
    backend = hostile("")
    with pytest.raises(OptionError, match=said) as caught:
        result(backend, options={"Hostile": {option: value}})
    assert caught.value.code is ErrorCode.OPTION_INVALID
    assert (caught.value.details["option"], caught.value.details["backend"]) == (option, "Hostile")
    assert f"'{option}'" in caught.value.message
    with pytest.raises(OptionError):
        result(backend, options={"Hostile": backend.options_type(**{option: value})})
    assert result(backend, options={"Hostile": {"tile": 2**63 - 1, "label": "é"}}) == [0, 2, 0, 4]
