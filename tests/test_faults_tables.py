"""Test faults of backends without Python (docs/faults.md): C tables, in a folder or a wheel."""

import json
import signal

import pytest
from faults.building import manifest

from dovetail import BackendError, BackendUnavailableError, Network, Runtime
from dovetail.contract.abi_version import ABI_VERSION
from dovetail.discovery.registry import BackendState

WHERE = pytest.mark.parametrize("where", ["folder", "wheel"])


def put(scene, library, where="folder"):
    """Put a library into the searched folder, or into an installed package, never imported."""
    if where == "folder":
        path = scene.folder / "libfaulty.so"
        path.write_bytes(library.read_bytes())
        scene.scan()
        return path
    folder = scene.add(
        source="raise SystemExit('imported')", value="faulty_faulty", content=manifest("Faulty", library="libfaulty.so")
    )
    (folder / "libfaulty.so").write_bytes(library.read_bytes())
    return folder / "libfaulty.so"


@WHERE
def test_good_table_works(scene, built_table, where):
    path = put(scene, built_table(), where)
    row = scene.works()
    assert row.state is BackendState.LOADED
    assert row.notes == ("self-test passed: add, float32",)
    assert row.path == str(path if where == "folder" else path.parent)


@pytest.mark.fault(9)
@WHERE
def test_library_without_a_table(scene, built_table, where):
    path = put(scene, built_table("Faulty", "NO_SYMBOL"), where)
    error = scene.refused("NOT_A_BACKEND", where=path)
    assert "dovetail_open_backend_v0" in error.message


@pytest.mark.fault(9)
@WHERE
def test_table_with_another_id(scene, built_table, where):
    put(scene, built_table("Other", content=manifest("Faulty")), where)
    error = scene.refused("ID_MISMATCH")
    assert "'Other'" in error.message


@pytest.mark.fault(17)
@WHERE
def test_manifest_of_another_abi_than_the_library(scene, built_table, where):
    older = [ABI_VERSION[0], ABI_VERSION[1] - 1]
    path = put(scene, built_table(content=manifest("Faulty", abi=older)), where)
    if where == "wheel":
        (path.parent / "dovetail-backend.json").write_text(json.dumps(manifest("Faulty", library="libfaulty.so", abi=older)))
    error = scene.refused("ABI_MISMATCH", where=path)
    for version in (ABI_VERSION, older):
        assert f"{version[0]}.{version[1]}" in error.message


@pytest.mark.fault(22)
def test_library_of_a_wheel_cut_short(scene, built_table, monkeypatch):
    monkeypatch.setenv("DOVETAIL_PROBE", "off")
    path = put(scene, built_table(), "wheel")
    path.write_bytes(path.read_bytes()[:4000])
    scene.refused("TRUNCATED", where=path)


@pytest.mark.fault(24)
def test_library_that_the_manifest_names_and_is_not_there(scene, built_table):
    path = put(scene, built_table(), "wheel")
    path.unlink()
    scene.refused("UNREADABLE", where=path)


@pytest.mark.fault(28)
@WHERE
@pytest.mark.parametrize("fault", ["CRASH", "RUN"], ids=["when opened", "in the self-test"])
def test_table_that_crashes(scene, built_table, where, fault):
    put(scene, built_table("Faulty", fault), where)
    error = scene.refused("PROBE_CRASHED")
    assert error.details["signal"] == signal.SIGSEGV
    scene.restart()
    scene.refused("PROBE_CRASHED", within=5)


@pytest.mark.fault(6)
def test_table_that_hangs(scene, built_table, monkeypatch):
    monkeypatch.setenv("DOVETAIL_PROBE_TIMEOUT", "1")
    put(scene, built_table("Faulty", "HANG"))
    scene.refused("PROBE_TIMEOUT", within=60)


@pytest.mark.fault(4)
def test_table_that_ends_the_process(scene, built_table):
    put(scene, built_table("Faulty", "EXIT"))
    error = scene.refused("PROBE_EXITED")
    assert "exit code 0" in error.message


@pytest.mark.fault(57)
def test_table_that_computes_something_else(scene, built_table):
    put(scene, built_table("Faulty", "WRONG"))
    error = scene.refused("SELF_TEST_FAILED")
    assert "element [0, 0] is 0.5, not 1.5; 8 of 8 are wrong" in error.message
    assert scene.row().state is BackendState.BROKEN


@WHERE
def test_driver_that_is_missing_is_a_state_and_no_quarantine(scene, built_table, where):
    put(scene, built_table("Faulty", "DRIVER"), where)
    for _ in range(2):
        with pytest.raises(BackendUnavailableError, match=r"libacme\.so\.3 is missing") as caught:
            scene.registry.get("Faulty")
        assert caught.value.details["state"] == "driver_missing"
        assert caught.value.details["reason_code"] == "DRIVER_MISSING"
        assert scene.row().state is BackendState.DRIVER_MISSING
    assert scene.registry.verdicts.quarantine() == []
    assert not (scene.root / "cache" / "passed").exists()
    put(scene, built_table()) if where == "folder" else (scene.site / "faulty_faulty" / "libfaulty.so").write_bytes(
        built_table().read_bytes()
    )
    assert scene.works().state is BackendState.LOADED


def test_device_that_is_busy_is_a_state_for_as_long_as_it_is(scene, built_table, monkeypatch):
    marker = scene.root / "busy"
    marker.touch()
    monkeypatch.setenv("DOVETAIL_FAULT_BUSY", str(marker))
    put(scene, built_table("Faulty", "BUSY"))
    backend = scene.registry.get("Faulty")
    assert "self-test not run" in scene.row().notes[0]
    assert not (scene.root / "cache" / "passed").exists()  # it is tested when the device is free
    net = Network("sum")
    net.output(net.addition(net.input("a", (2,)), net.input("b", (2,))), "y")
    with Runtime(threads=1) as runtime:
        with pytest.raises(BackendError, match="somebody else has the device"):
            runtime.load(net, optimize={"backends": [backend], "registry": scene.registry})
        row = scene.row()
        assert (row.state, row.code, row.step) == (BackendState.DEVICE_BUSY, "DEVICE_BUSY", "device")
        assert "somebody else" in row.reason
        marker.unlink()
        runtime.load(net, optimize={"backends": [backend], "registry": scene.registry})
        assert scene.row().state is BackendState.LOADED
    assert scene.registry.verdicts.quarantine() == []
