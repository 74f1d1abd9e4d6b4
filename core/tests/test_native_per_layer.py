"""Test a table that makes one workload per layer, and tables that are refused."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import dovetail
from dovetail import Device
from dovetail.contract.claims import read_claims
from dovetail.contract.interfaces import Capabilities
from dovetail.ground.errors import BackendError, ErrorCode
from dovetail.native import NativeBackend, load_backend

Build = Callable[..., Path]


@pytest.fixture
def backend(build: Build) -> NativeBackend:
    return load_backend(build("per_layer.c"), expected_id="TableCpu")


def network() -> dovetail.Network:
    made = dovetail.Network("sum")
    a, b = made.input("a", (2, 3)), made.input("b", (2, 3))
    total = made.add(_binary("add"), a, b, name="total").output
    shifted = made.add(_binary("add"), total, np.float32([[1, -2, 3]]), name="shifted").output
    made.output(made.add(_relu(), shifted, name="relu").output, "out")
    return made


def _binary(operation: str):
    from dovetail.layers.elementwise import BinaryOperation, ElementwiseBinary

    return ElementwiseBinary(operation=BinaryOperation(operation))


def _relu():
    from dovetail.layers.activation import Activation, ActivationFunction

    return Activation(function=ActivationFunction("relu"))


@pytest.mark.parametrize("passes", [True, False])
def test_runs_as_numpy_says(backend: NativeBackend, passes: bool) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((2, 3)).astype(np.float32) for _ in range(2))
    with dovetail.Runtime() as runtime, dovetail.load(network(), backend, runtime=runtime, passes=passes) as loaded:
        result = loaded.run({"a": a, "b": b})["out"]
    np.testing.assert_array_equal(result, np.maximum(a + b + np.float32([[1, -2, 3]]), 0))


def test_claims_decide_for_a_table_without_supports(build: Build) -> None:
    claims = read_claims({"dovetail.ElementwiseBinary": [{"dtypes": ["float32"], "where": {"operation": "add"}}]})
    path = build("per_layer.c", "claimed", "-DNO_SUPPORTS", "-Wno-unused-function")
    claimed = load_backend(path, claims=claims)
    a = np.float32([[1, 2, 3], [4, 5, 6]])
    with dovetail.load(_additions(), claimed) as loaded:
        np.testing.assert_array_equal(loaded.run(dict.fromkeys("abc", a))["out"], 3 * a)
    layer = network().layers[-2]
    refused = claimed.supports(layer, claimed.options_type(), Device())
    assert (refused.code, refused.reason) == ("kind", "dovetail.Activation is not taken; dovetail.ElementwiseBinary is")


def test_claims_come_before_the_supports_of_a_table(build: Build) -> None:
    narrow = read_claims({"dovetail.ElementwiseBinary": [{"dtypes": ["float32"], "where": {"output.rank": 1}}]})
    both = load_backend(build("per_layer.c"), claims=narrow)
    layer = next(layer for layer in _additions().layers if layer.kind == "dovetail.ElementwiseBinary")
    assert both.supports(layer, both.options_type(), Device()).reason == "output.rank is 2; 1 is taken"
    wide = load_backend(build("per_layer.c"), claims=read_claims({"dovetail.ElementwiseBinary": [{"dtypes": ["any"]}]}))
    made = dovetail.Network("product")
    x = made.input("a", (2, 3))
    assert (
        wide.supports(made.add(_binary("mul"), x, x), wide.options_type(), Device()).reason == "only additions and ReLU are run"
    )


def test_facts(backend: NativeBackend) -> None:
    assert (backend.id, backend.version, tuple(backend.devices())) == ("TableCpu", "1.2.3", (Device(0, "device 0"),))
    assert backend.capabilities().deterministic
    assert not backend.capabilities().asynchronous


@pytest.mark.parametrize("bit", range(5))
def test_each_capability_has_a_bit(bit: int) -> None:
    backend = object.__new__(NativeBackend)
    backend._table = SimpleNamespace(capabilities=1 << bit)  # type: ignore[assignment]
    names = ("deterministic", "asynchronous", "float16", "bfloat16", "integers")
    assert backend.capabilities() == Capabilities(**{name: name == names[bit] for name in names})


def test_refusal_has_the_backends_words(backend: NativeBackend) -> None:
    made = dovetail.Network("product")
    a = made.input("a", (2, 3))
    layer = made.add(_binary("mul"), a, a)
    answer = backend.supports(layer, backend.options_type(), Device())
    assert (answer.supported, answer.code) == (False, "attribute")
    assert "ReLU" in answer.reason


@pytest.mark.parametrize(
    ("name", "flags", "code", "words"),
    [
        ("major", ["-DMAJOR=1"], ErrorCode.ABI_MISMATCH, ["ABI 1.", "has ABI 0."]),
        ("minor", ["-DMINOR=99"], ErrorCode.ABI_MISMATCH, ["ABI 0.99"]),
        ("huge", ["-DSIZE=100000"], ErrorCode.BACKEND_CONTRACT, ["100000 bytes"]),
        ("tiny", ["-DSIZE=24"], ErrorCode.BACKEND_CONTRACT, ["24 bytes"]),
        ("zero", ["-DSIZE=0"], ErrorCode.BACKEND_CONTRACT, ["0 bytes"]),
        ("deaf", ["-DNO_SUPPORTS", "-Wno-unused-function"], ErrorCode.BACKEND_CONTRACT, ["supports"]),
        ("idle", ["-DNO_WORKLOADS", "-Wno-unused-function"], ErrorCode.BACKEND_CONTRACT, ["create_workload"]),
        (
            "unlinked", ["-DDOVETAIL_OPEN_BACKEND_HIDDEN", "-Ddovetail_open_backend_v0=another"],
            ErrorCode.BACKEND_CONTRACT, ["dovetail_open_backend_v0"],
        ),
    ],
)  # fmt: skip
def test_refused_tables(build: Build, name: str, flags: list[str], code: ErrorCode, words: list[str]) -> None:
    with pytest.raises(BackendError) as caught:
        load_backend(build("per_layer.c", name, *flags))
    assert caught.value.code is code
    assert all(word in caught.value.message for word in words), caught.value.message


def test_a_lie_about_the_id(build: Build) -> None:
    with pytest.raises(BackendError, match="manifest says 'Other'") as caught:
        load_backend(build("per_layer.c"), expected_id="Other")
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT


def test_a_refusal_without_words_is_against_the_contract(build: Build) -> None:
    backend = load_backend(build("per_layer.c", "silent", "-DSILENT", "-Wno-unused-parameter"))
    made = dovetail.Network("product")
    a = made.input("a", (2, 3))
    with pytest.raises(BackendError, match="without a code") as caught:
        backend.supports(made.add(_binary("mul"), a, a), backend.options_type(), Device())
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT


def test_loader_messages_are_kept(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="not there"):
        load_backend(tmp_path / "absent.so")
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(BackendError) as caught:
        load_backend(tmp_path / "text.so")
    assert "too short" in caught.value.message or "invalid ELF" in caught.value.message


def test_a_library_that_it_needs_is_missing(build: Build, tmp_path: Path) -> None:
    gone = tmp_path / "libdovetail_gone.so"
    subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null", "-o", str(gone)], check=True)
    library = build("per_layer.c", "needy", "-Wl,--no-as-needed", f"-L{tmp_path}", "-ldovetail_gone")
    gone.unlink()
    with pytest.raises(BackendError, match=r"needs libdovetail_gone\.so, which is not there") as caught:
        load_backend(library)
    assert "libdovetail_gone.so" in str(caught.value.hint)


def test_a_symbol_that_nobody_defines(build: Build) -> None:
    with pytest.raises(BackendError, match=r"nobody defines: .*defined_by_nobody") as caught:
        load_backend(build("per_layer.c", "undefined", "-DUNDEFINED"))
    assert "-z,defs" in str(caught.value.hint)


@pytest.mark.parametrize("passes", [True, False])
def test_a_shorter_table_works(build: Build, passes: bool) -> None:
    """A table ends with create_workload: what lies behind it is not read, and is left out."""
    size = "(offsetof(dovetail_backend, create_workload) + sizeof(void *))"
    older = load_backend(build("per_layer.c", "shorter", f"-DSIZE={size}", "-DGARBAGE"))
    today = load_backend(build("per_layer.c", "another", '-DID="TableToday"'))
    a, b = np.float32([[1, 2, 3], [4, 5, 6]]), np.float32([[-9, 8, -7], [6, -5, 4]])
    for backend in (older, today):
        with dovetail.Runtime() as runtime, dovetail.load(network(), backend, runtime=runtime, passes=passes) as loaded:
            np.testing.assert_array_equal(loaded.run({"a": a, "b": b})["out"], np.maximum(a + b + np.float32([[1, -2, 3]]), 0))
            assert {one.backend for one in loaded.placement.layers} == {str(backend.id)}
    older.close()


def _additions() -> dovetail.Network:
    made = dovetail.Network("additions")
    a, b, c = (made.input(name, (2, 3)) for name in "abc")
    made.output(made.add(_binary("add"), made.add(_binary("add"), a, b), c).output, "out")
    return made


@pytest.mark.parametrize("passes", [True, False])
def test_compiled_part_with_progress_and_artefact(build: Build, tmp_path: Path, passes: bool) -> None:
    library = build("compiler.c", "compiler")
    backend = load_backend(library)
    alive = ctypes.CDLL(str(library)).compiled_alive
    gc.collect()  # what earlier tests compiled with this library
    assert alive() == 0
    feeds = {name: np.full((2, 3), value, np.float32) for name, value in zip("abc", (1, 2, 4), strict=True)}
    for attempt in range(2):
        told: list[tuple[str, float, str]] = []
        options = {"TableCompiler": {"artefacts": str(tmp_path)}}
        with (
            dovetail.Runtime() as runtime,
            dovetail.load(
                _additions(),
                backend,
                runtime=runtime,
                passes=passes,
                options=options,
                progress=lambda *one, to=told: to.append(one),
            ) as loaded,
        ):
            np.testing.assert_array_equal(loaded.run(feeds)["out"], np.full((2, 3), 7, np.float32))
            assert alive() == (1 if passes else 2)
        del loaded
        gc.collect()
        assert alive() == 0
        assert (len(told) > 0) == (attempt == 0)
    assert told == []


def test_compile_failure_falls_back(build: Build) -> None:
    compiler, cpu = load_backend(build("compiler.c", "compiler")), load_backend(build("per_layer.c"))
    options = {"TableCompiler": {"fail": True}}
    with (
        dovetail.Runtime() as runtime,
        dovetail.load(_additions(), [compiler, cpu], runtime=runtime, options=options) as loaded,
    ):
        assert "2 layers are too many" in str(loaded.placement.layers)


def test_claiming_is_not_compiling_and_a_failure_goes_back(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    compiler, cpu = load_backend(build("compiler.c", "compiler")), load_backend(build("per_layer.c"))
    count = ctypes.c_int.from_address(compiler.extension("test.compilations"))
    assert compiler.extension("test.nothing") == 0
    before = count.value
    optimized = dovetail.optimize(_additions(), [compiler, cpu], options={"TableCompiler": {"fail": True}})
    assert [(row.backend, row.words) for row in optimized.placement.layers] == [("TableCompiler", "sum of 3 tensors")]
    assert "sum of 3 tensors" in optimized.placement.explain()
    assert count.value == before
    with dovetail.Runtime() as runtime, runtime.load(optimized) as loaded:
        assert count.value == before + 1
        assert {row.backend for row in loaded.placement.layers} == {"TableCpu"}
        assert {refusal.code for row in loaded.placement.fallbacks for refusal in row.refusals} == {"failed"}
        assert "backend TableCompiler could not compile" in caplog.text
        feeds = {name: np.full((2, 3), value, np.float32) for name, value in zip("abc", (1, 2, 4), strict=True)}
        np.testing.assert_array_equal(loaded.run(feeds)["out"], np.full((2, 3), 7, np.float32))
        with pytest.raises(dovetail.BackendError, match="2 layers are too many") as caught:
            runtime.load(dovetail.optimize(_additions(), compiler, options={"TableCompiler": {"fail": True}}))
        assert caught.value.code == "COMPILE_FAILED"
        arguments = {"backends": [compiler, cpu], "options": {"TableCompiler": {"fail": True}}, "fallback": False}
        with pytest.raises(dovetail.BackendError, match="2 layers are too many") as failed:
            runtime.load(_additions(), optimize=arguments)
        assert failed.value.code == "COMPILE_FAILED"


def test_a_table_may_leave_a_part_unclaimed(build: Build) -> None:
    compiler, cpu = load_backend(build("compiler.c", "compiler")), load_backend(build("per_layer.c"))
    placement = dovetail.optimize(_additions(), [compiler, cpu], options={"TableCompiler": {"leave": True}}).placement
    assert {row.backend for row in placement.layers} == {"TableCpu"}
    assert "2 layers are not claimed" in placement.explain()


def test_a_deadline_ends_a_compilation(build: Build) -> None:
    compiler = load_backend(build("compiler.c", "compiler"))
    limits = dovetail.Limits(seconds=0.05)
    with pytest.raises(dovetail.LoadTimeoutError):
        dovetail.load(_additions(), compiler, limits=limits, progress=lambda *_: time.sleep(0.1))


def test_ctrl_c_in_a_listener_ends_the_load(build: Build) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dovetail.load(_additions(), load_backend(build("compiler.c", "compiler")), progress=interrupt)
