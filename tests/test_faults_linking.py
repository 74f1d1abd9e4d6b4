"""Test faults 25 to 31 of docs/faults.md: what the dynamic loader says, and crashes."""

import os
import shutil
import signal

import pytest
from faults.building import compile_c, extension
from faults.scene import GOOD

from dovetail.discovery.registry import BackendState


@pytest.mark.fault(25)
def test_library_whose_driver_is_missing(scene, tmp_path):
    driver = tmp_path / "libacmedriver.so.3"
    (tmp_path / "driver.c").write_text("int acme_driver_version(void) { return 3; }\n")
    compile_c(driver, tmp_path / "driver.c", "-Wl,-soname,libacmedriver.so.3")
    library = extension(tmp_path / "faulty.so", "Faulty", "NEEDS_LIBRARY", driver)
    driver.unlink()
    scene.put(library)
    error = scene.refused("MISSING_DEPENDENCY")
    assert error.details["library"] == "libacmedriver.so.3"


@pytest.mark.fault(26)
@pytest.mark.parametrize("probe", ["on", "off"])
def test_undefined_symbol_is_found_at_load(scene, built, monkeypatch, probe):
    monkeypatch.setenv("DOVETAIL_PROBE", probe)
    scene.put(built("faulty", fault="UNDEFINED"))
    error = scene.refused("UNDEFINED_SYMBOL")
    assert error.details["symbol"] == "acme_function_that_is_nowhere"


@pytest.mark.fault(27)
def test_library_whose_driver_is_too_old(scene, tmp_path):
    driver = tmp_path / "libacmedriver.so.3"
    (tmp_path / "driver.c").write_text("int acme_driver_version(void) { return 3; }\n")
    (tmp_path / "new.map").write_text("ACME_2.99 { global: acme_driver_version; };\n")
    (tmp_path / "old.map").write_text("ACME_2.1 { global: acme_driver_version; };\n")
    build = (tmp_path / "driver.c", "-Wl,-soname,libacmedriver.so.3")
    compile_c(driver, *build, f"-Wl,--version-script={tmp_path / 'new.map'}")
    library = extension(tmp_path / "faulty.so", "Faulty", "NEEDS_LIBRARY", driver, f"-Wl,-rpath,{tmp_path}")
    compile_c(driver, *build, f"-Wl,--version-script={tmp_path / 'old.map'}")
    scene.put(library)
    error = scene.refused("MISSING_DEPENDENCY")
    assert error.details["version"] == "ACME_2.99"


CRASHES = {"SIGSEGV": signal.SIGSEGV, "SIGILL": signal.SIGILL, "SIGFPE": signal.SIGFPE, "ABORT": signal.SIGABRT}


@pytest.mark.fault(28)
@pytest.mark.parametrize("fault", CRASHES)
@pytest.mark.parametrize("where", ["folder", "package"])
def test_crash_at_load(scene, built, monkeypatch, fault, where):
    if where == "folder":
        scene.put(built("faulty", fault=fault))
    else:
        scene.put_in_package(built("core", fault=fault, content=None))
    error = scene.refused("PROBE_CRASHED")
    assert error.details["signal"] == CRASHES[fault]
    assert CRASHES[fault].name in error.message
    assert "Fatal Python error" in error.details["trace"]
    scene.restart()
    scene.registry.refresh()
    assert scene.row().state is BackendState.QUARANTINED  # the listing shows it, without loading anything
    error = scene.refused("PROBE_CRASHED", within=5)
    assert error.details["count"] == 1  # it was not tried again


@pytest.mark.fault(28)
def test_release_from_quarantine(scene, built):
    scene.put(built("faulty", fault="ABORT"))
    scene.refused("PROBE_CRASHED")
    assert scene.registry.release("Faulty")
    assert not scene.registry.release("Faulty")
    assert scene.row().state is BackendState.AVAILABLE
    scene.refused("PROBE_CRASHED")  # it is tried again, and crashes again
    scene.put(built("faulty"))  # the repaired one is not held to it
    assert scene.works().state is BackendState.LOADED


@pytest.mark.fault(29)
def test_backend_that_fails_only_beside_another(scene):
    """The probe loads one backend alone, so the program finds this; what raises is still a row."""
    scene.add(source="import sys\nif 'dovetail_reference' in sys.modules: raise RuntimeError('not beside CpuRef')\n" + GOOD)
    assert scene.registry.examine("Faulty").state is BackendState.AVAILABLE
    error = scene.refused("IMPORT_FAILED")
    assert "not beside CpuRef" in error.message


@pytest.mark.fault(30)
def test_library_replaced_between_listing_and_loading(scene, built):
    path = scene.put(built("faulty"))
    assert scene.row().state is BackendState.AVAILABLE
    os.replace(shutil.copy(built("faulty", fault="ABORT"), scene.root / "new.so"), path)
    scene.refused("CHANGED_DURING_LOAD", where=path)


@pytest.mark.fault(30)
@pytest.mark.parametrize("probe", ["on", "off"])
def test_library_replaced_while_it_is_loaded(scene, built, monkeypatch, probe):
    monkeypatch.setenv("DOVETAIL_PROBE", probe)
    path = scene.put(built("faulty", fault="REPLACED"))
    monkeypatch.setenv("DOVETAIL_FAULT_NEW", str(shutil.copy(built("faulty"), scene.root / "new.so")))
    monkeypatch.setenv("DOVETAIL_FAULT_OLD", str(path))
    scene.refused("CHANGED_DURING_LOAD", where=path)


@pytest.mark.fault(31)
def test_library_replaced_after_it_was_loaded(scene, built):
    path = scene.put(built("faulty"))
    assert not scene.works().stale
    os.replace(shutil.copy(built("faulty", "Other"), scene.root / "new.so"), path)
    assert scene.works().stale  # the running copy goes on
    assert scene.works().state is BackendState.LOADED
