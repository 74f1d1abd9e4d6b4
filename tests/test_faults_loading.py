"""Test faults 1 to 20 of docs/faults.md: while backends are listed, probed and imported."""

import importlib.machinery
import json
import logging
import os
import signal
import sys
from pathlib import Path

import pytest
from faults.building import manifest
from faults.scene import GOOD

from dovetail import BackendError, BackendUnavailableError
from dovetail.contract.abi_version import ABI_VERSION
from dovetail.discovery.host_state import HostState
from dovetail.discovery.registry import BackendState

BOTH = pytest.mark.parametrize("probe", ["on", "off"], ids=["probed", "in-process"])
MAJOR, MINOR = ABI_VERSION


# -- importing -------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("statement", "text"),
    [
        pytest.param("raise ImportError('no acme here')", "ImportError: no acme here", marks=pytest.mark.fault(1)),
        pytest.param("assert False, 'surely'", "AssertionError: surely", marks=pytest.mark.fault(2)),
        pytest.param("import sys; sys.exit()", "SystemExit", marks=pytest.mark.fault(3)),
        pytest.param("import sys; sys.exit(0)", "SystemExit: 0", marks=pytest.mark.fault(3)),
        pytest.param("raise KeyboardInterrupt", "KeyboardInterrupt", marks=pytest.mark.fault(5)),
        pytest.param("class Odd(BaseException): pass\nraise Odd('odd')", "Odd: odd", marks=pytest.mark.fault(2)),
        pytest.param(
            "class Mute(Exception):\n    def __str__(self): raise SystemExit\nraise Mute", "printed", marks=pytest.mark.fault(2)
        ),
        pytest.param("def deeper(): deeper()\ndeeper()", "RecursionError", marks=pytest.mark.fault(7)),
    ],
)
def test_import_that_raises(scene, monkeypatch, probe, statement, text):
    monkeypatch.setenv("DOVETAIL_PROBE", probe)
    scene.add(source=statement)
    error = scene.refused("IMPORT_FAILED")
    assert text in error.message
    assert "faulty_faulty" in error.message
    assert error.__cause__ is not None  # the traceback is kept, as text if it happened in the child
    if probe == "on":
        assert "Traceback" in str(error.__cause__)
    assert scene.row().state is BackendState.BROKEN


@pytest.mark.fault(4)
@pytest.mark.parametrize("status", [0, 3])
def test_import_that_ends_the_process(scene, status):
    scene.add(source=f"import os\nos._exit({status})")
    error = scene.refused("PROBE_EXITED")
    assert f"exit code {status}" in error.message


@pytest.mark.fault(4)
def test_backend_that_forges_the_word_of_success(scene):
    """What a backend writes to every descriptor that it finds is not taken as the child's word."""
    scene.add(
        source="""
        import json, os
        for descriptor in range(3, 64):
            try:
                os.write(descriptor, json.dumps({"nonce": "guessed", "stage": "result", "notes": []}).encode() + b"\\n")
            except OSError:
                pass
        os._exit(0)
        """
    )
    scene.refused("PROBE_EXITED")


@pytest.mark.fault(5)
def test_ctrl_c_of_the_user_still_gets_through(scene, monkeypatch):
    monkeypatch.setenv("DOVETAIL_PROBE", "off")
    scene.add(source="import signal\nsignal.raise_signal(signal.SIGINT)")
    with pytest.raises(KeyboardInterrupt):
        scene.registry.get("Faulty")
    assert scene.row().state is BackendState.AVAILABLE


@pytest.mark.fault(6)
@pytest.mark.parametrize(
    "statement",
    [
        "import time\ntime.sleep(1000)",
        "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
        "import socket\na, b = socket.socketpair()\na.recv(1)",
        "import signal, time\nfor n in (signal.SIGTERM, signal.SIGINT): signal.signal(n, signal.SIG_IGN)\ntime.sleep(1000)",
    ],
    ids=["sleep", "lock", "socket", "deaf"],
)
def test_import_that_hangs(scene, monkeypatch, statement):
    monkeypatch.setenv("DOVETAIL_PROBE_TIMEOUT", "1")
    scene.add(source=statement)
    error = scene.refused("PROBE_TIMEOUT", within=60)
    assert "within 1 s" in error.message
    assert "faulty_faulty/__init__.py" in error.details["trace"]
    scene.restart()
    error = scene.refused("PROBE_TIMEOUT", within=5)  # not tried again
    assert error.details["count"] == 1


@pytest.mark.fault(6)
def test_hang_with_the_gil_held_in_native_code(scene, built, monkeypatch):
    monkeypatch.setenv("DOVETAIL_PROBE_TIMEOUT", "1")
    scene.put(built("faulty", fault="HANG"))
    scene.refused("PROBE_TIMEOUT", within=60)


@pytest.mark.fault(7)
@pytest.mark.parametrize(
    "statement",
    ["eaten = bytearray(8 << 30)", "eaten = []\nwhile True: eaten.append(bytearray(16 << 20))"],
    ids=["at once", "bit by bit"],
)
def test_import_that_eats_the_memory(scene, monkeypatch, statement):
    monkeypatch.setenv("DOVETAIL_PROBE_MEMORY", "1024")
    scene.add(source=statement)
    error = scene.refused("PROBE_LIMIT")
    assert "1024 MiB" in error.message


@pytest.mark.fault(7)
def test_endless_recursion_in_native_code(scene, built):
    scene.put(built("faulty", fault="STACK"))
    error = scene.refused("PROBE_CRASHED")
    assert error.details["signal"] == signal.SIGSEGV


# -- what the entry point points at ----------------------------------------------------------------


@pytest.mark.fault(8)
@BOTH
@pytest.mark.parametrize("value", ["faulty_faulty:Absent", "faulty_faulty:Backend.absent", "faulty_faulty.absent:Backend"])
def test_entry_point_that_points_at_nothing(scene, monkeypatch, probe, value):
    monkeypatch.setenv("DOVETAIL_PROBE", probe)
    scene.add(value=value)
    error = scene.refused("ENTRY_POINT_BROKEN")
    assert "bsent" in error.message


@pytest.mark.fault(8)
def test_dependency_that_is_not_installed_is_named(scene):
    scene.add(source="import acme_driver_bindings")
    error = scene.refused("MISSING_DEPENDENCY")
    assert error.details["missing"] == "acme_driver_bindings"


@pytest.mark.fault(9)
@BOTH
@pytest.mark.parametrize(
    ("source", "text", "missing"),
    [
        ("Backend = None", "NoneType", ["create_workload_factory", "id"]),
        ("Backend = 7", "an instance of builtins.int", ["create_workload_factory", "id"]),
        ("class Backend: id = 'Faulty'", "not an IBackend", ["create_workload_factory"]),
        (
            "from dovetail import IBackend\nclass Backend(IBackend): id = 'Faulty'",
            "lacks create_workload_factory",
            ["create_workload_factory"],
        ),
        (GOOD + "\nBackend = Add", "not an IBackend", ["create_workload_factory", "id"]),
    ],
)
def test_entry_point_that_is_no_backend(scene, monkeypatch, probe, source, text, missing):
    monkeypatch.setenv("DOVETAIL_PROBE", probe)
    scene.add(source=source)
    error = scene.refused("NOT_A_BACKEND")
    assert text in error.message
    assert error.details["missing"] == missing


@pytest.mark.fault(9)
def test_backend_that_lies_about_its_id(scene):
    scene.add(source=GOOD.replace("{id!r}", "'CpuRef'"))
    error = scene.refused("ID_MISMATCH")
    assert "'Faulty'" in error.message
    assert "'CpuRef'" in error.message


# -- metadata --------------------------------------------------------------------------------------


@pytest.mark.fault(10)
@pytest.mark.parametrize(
    ("content", "is_row"),
    [
        (b"\xff\xfe[dovetail.backends]\nFaulty = faulty:Backend\n", False),
        (b"", False),
        (b"[dovetail.backends]\nno equals sign\n", True),
        (b"[dovetail.backends]\nFaul\0ty = faulty_faulty:Backend\n", True),
        (b"[dovetail.backends\nFaulty = faulty_faulty:Backend\n", True),
    ],
    ids=["no UTF-8", "empty", "no table", "NUL", "no section"],
)
def test_entry_points_that_cannot_be_read(scene, caplog, content, is_row):
    scene.add()
    scene.add("Other", package="other_package")
    (scene.site / "faulty_faulty-1.0.dist-info" / "entry_points.txt").write_bytes(content)
    rows = {row.id: row for row in scene.registry.rows()}
    assert "Faulty" not in rows
    assert rows["Other"].state is BackendState.AVAILABLE
    if is_row:
        (row,) = [row for row in rows.values() if not row.state.is_ready]
        assert row.distribution == "faulty-faulty"
        assert row.code in ("BAD_METADATA", "BAD_ID")
    elif content:
        assert "faulty-faulty" in caplog.text


@pytest.mark.fault(11)
def test_distribution_without_metadata(scene):
    scene.add(metadata=False)
    scene.add("Other", package="other_package")
    (row,) = [row for row in scene.registry.rows() if not row.state.is_ready]
    assert row.code == "BAD_METADATA"
    assert str(scene.site) in row.distribution
    assert scene.row("Other").state is BackendState.AVAILABLE


@pytest.mark.fault(11)
def test_distribution_whose_package_is_gone(scene):
    folder = scene.add()
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    scene.refused("ENTRY_POINT_BROKEN")


@pytest.mark.fault(12)
@pytest.mark.parametrize("second", ["Faulty", "FAULTY"])
def test_two_distributions_with_one_id(scene, second):
    scene.add(package="first_package", version="1.1")
    scene.add(second, package="second_package", version="2.2", content=manifest(second))
    rows = [row for row in scene.registry.rows() if row.id.lower() == "faulty"]
    assert [(row.code, row.step) for row in rows] == [("DUPLICATE_ID", "list")] * 2
    with pytest.raises(BackendError) as caught:
        scene.registry.get("Faulty")
    assert caught.value.details["reason_code"] == "DUPLICATE_ID"
    for text in ("first-package 1.1", "second-package 2.2"):
        assert text in caught.value.message
        assert all(text in row.reason for row in rows)
    assert not {"first_package", "second_package"} & {*sys.modules}


@pytest.mark.fault(12)
def test_distribution_and_searched_folder_with_one_id(scene, built):
    scene.add()
    scene.put(built("faulty"))
    rows = [row for row in scene.registry.rows() if row.id == "Faulty"]
    assert [row.code for row in rows] == ["DUPLICATE_ID"] * 2


@pytest.mark.fault(13)
def test_distribution_that_is_reached_twice(scene, monkeypatch):
    scene.add()
    alias = scene.root / "alias"
    alias.symlink_to(scene.site)
    monkeypatch.syspath_prepend(str(alias))
    assert scene.works().state is BackendState.LOADED


@pytest.mark.fault(13)
def test_file_that_is_reached_twice(scene, built):
    scene.packages.add("faulty")
    (scene.folder / "faulty.so").write_bytes(built("faulty").read_bytes())
    (scene.folder / "alias.so").symlink_to("faulty.so")
    os.link(scene.folder / "faulty.so", scene.folder / "hard.so")
    scene.scan(f"{scene.folder}:{scene.folder}/")
    assert scene.works().state is BackendState.LOADED


@pytest.mark.fault(14)
@pytest.mark.parametrize("id", ["x" * 4096, "\u0421puRef", "Cpu Ref", "1st", "Cpu-Ref", "CpuR\u0435f", "a" * 65])
def test_name_that_is_no_id(scene, id):
    scene.add(id, package="faulty_name", content=None)
    (row,) = [row for row in scene.registry.rows() if not row.state.is_ready]
    assert (row.id, row.code, row.state) == (id, "BAD_ID", BackendState.INVALID_ID)
    with pytest.raises(BackendError, match="is not a backend id"):
        scene.registry.get(id)


@pytest.mark.fault(14)
@pytest.mark.parametrize("id", ["", " ", "x" * 4096, "\u0421puRef"])
def test_manifest_in_a_library_with_a_name_that_is_no_id(scene, built, id):
    library = built("faulty", content=manifest(id, module="faulty"))
    scene.put(library)
    assert scene.row_of(scene.folder / "faulty.so").code == "BAD_ID"


@pytest.mark.fault(14)
def test_id_that_differs_from_another_in_case_only(scene):
    scene.add("CPUREF", package="faulty_case")
    assert {row.code for row in scene.registry.rows() if row.id.lower() == "cpuref"} == {"DUPLICATE_ID"}


# -- versions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("abi", "code"),
    [
        pytest.param((MAJOR + 1, 0), "ABI_MAJOR", marks=pytest.mark.fault(15)),
        pytest.param((MAJOR, MINOR + 1), "ABI_MINOR_NEWER", marks=pytest.mark.fault(16)),
    ],
)
@pytest.mark.parametrize("where", ["package", "library"])
def test_other_abi_is_refused_before_any_code_runs(scene, built, abi, code, where):
    marker = scene.root / "it-ran"
    if where == "package":
        scene.add(source=f"open({str(marker)!r}, 'w')", content=manifest("Faulty", abi=list(abi)))
    else:
        content = manifest("Faulty", abi=list(abi), module="faulty")
        (scene.folder / "faulty.so").write_bytes(built("faulty", "Faulty", "ABORT", content=content).read_bytes())
        scene.scan()
    error = scene.refused(code)
    for version in (abi, ABI_VERSION):
        assert f"{version[0]}.{version[1]}" in error.message
    assert isinstance(error, BackendUnavailableError)
    assert error.details["state"] == "version_mismatch"
    assert not marker.exists()


@pytest.mark.fault(18)
def test_module_of_another_python(scene):
    folder = scene.add(source="from . import core")
    (folder / "libhexagon.so").write_bytes(b"")  # not for this process, as far as can be told: left to whoever loads it
    good = Path(importlib.machinery.PathFinder.find_spec("_ctypes").origin)
    (folder / "core.cpython-313t-x86_64-linux-gnu.so").write_bytes(good.read_bytes())
    error = scene.refused("PY_ABI")
    assert "build" in error.hint


@pytest.mark.fault(18)
def test_library_in_a_folder_of_another_python(scene, built):
    name = "faulty.cpython-39-x86_64-linux-gnu.so"
    (scene.folder / name).write_bytes(built("faulty").read_bytes())
    scene.scan()
    error = scene.refused("PY_ABI", where=scene.folder / name)
    assert ".cpython-" in error.message


@pytest.mark.fault(18)
def test_symbol_that_another_python_had(scene, built):
    scene.put(built("faulty", fault="OTHER_PYTHON"))
    error = scene.refused("PY_ABI")
    assert error.details["symbol"] == "_PyAcme_RemovedInThisVersion"


@pytest.mark.fault(18)
@pytest.mark.parametrize(
    "text",
    [
        "numpy.ndarray size changed, may indicate binary incompatibility. Expected 96 from C header, got 80 from PyObject",
        "C function dovetail.runtime.workload.f has wrong signature (expected int (int), got int (void))",
    ],
)
def test_module_built_against_another_version_of_a_compiled_one(scene, text):
    scene.add(source=f"raise ValueError({text!r})")
    scene.refused("PY_ABI")


# -- side effects ----------------------------------------------------------------------------------

EFFECTS = {
    "print('hello')": "it writes to stdout: 'hello'",
    "import warnings; warnings.simplefilter('ignore')": "the filters of warnings",
    "import locale; locale.setlocale(locale.LC_ALL, 'C.UTF-8')": "the locale",
    "import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN)": "signal handlers: SIGUSR1",
    "import os; os.chdir('/')": "the working folder, to /",
    "import sys; sys.path.append('/nowhere')": "sys.path, by '/nowhere'",
    "import os; os.environ['ACME'] = '1'": "environment variables: ACME",
    "import threading, time; threading.Thread(target=time.sleep, args=(1,), daemon=True).start()": "threads: 1 started",
    "import atexit; atexit.register(int)": "functions to call at exit: 1",
    "import atexit, os; atexit.register(os._exit, 3)": "ends with exit code 3",
    "import atexit, os, signal; atexit.register(os.kill, os.getpid(), signal.SIGSEGV)": "ends by SIGSEGV at exit",
}


@pytest.mark.fault(19)
@pytest.mark.parametrize("statement", EFFECTS)
def test_side_effect_is_noted(scene, statement):
    scene.add(source=f"{statement}\n{GOOD}")
    row = scene.registry.examine("Faulty")
    assert row.state is BackendState.AVAILABLE
    assert any(note.startswith("SIDE_EFFECT") and EFFECTS[statement] in note for note in row.notes), row.notes


DEVICES = """
    def devices(self):
        from resource import RLIMIT_DATA, getrlimit

        from dovetail import Device

        return Device(0, "card", 1 << 30), Device(1, "host", getrlimit(RLIMIT_DATA)[0])
"""


def test_memory_that_only_the_probe_limits_is_said_to_be(scene, monkeypatch):
    monkeypatch.setenv("DOVETAIL_PROBE_MEMORY", "512")
    scene.add(source=GOOD + DEVICES)
    assert scene.registry.examine("Faulty").notes[1:] == (
        "device 0: card, 1073741824 bytes of memory",
        "device 1: host, 536870912 bytes of memory (numbers of memory are those of the probe, which may allocate 512 MiB)",
    )


@pytest.mark.fault(19)
def test_backend_without_side_effects_has_no_such_note(scene):
    scene.add()
    assert scene.registry.examine("Faulty").notes == ("self-test passed: add, float32",)


@pytest.mark.fault(19)
def test_what_can_be_restored_is_restored(scene, monkeypatch):
    monkeypatch.setenv("DOVETAIL_PROBE", "off")
    monkeypatch.chdir(scene.root)
    change = (
        "import os, signal\nos.chdir('/')\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\nsignal.signal(signal.SIGINT, id)\n"
    )
    scene.add(source=change + GOOD)
    before = HostState.capture()
    scene.registry.get("Faulty")
    assert not [one for one in before.changes_to(HostState.capture()) if one.startswith(("the working", "signal"))]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.fault(19)
def test_flags_and_handlers_that_native_code_changes(scene, built):
    import numpy as np

    (scene.folder / "faulty.so").write_bytes(built("faulty", fault="SIDE_EFFECTS").read_bytes())
    scene.packages.add("faulty")
    scene.scan()
    before = HostState.capture()
    row = scene.works()
    assert any("signal handlers: SIGUSR1" in note for note in row.notes)
    assert any("floating-point flags" in note for note in row.notes) or os.uname().machine != "x86_64"
    assert not [one for one in before.changes_to(HostState.capture()) if one.startswith(("the working", "signal", "floating"))]
    tiny = np.float32(1e-38) * np.ones(8, np.float32)
    assert (tiny / np.float32(16) > 0).all()


# -- verdicts that are no good ---------------------------------------------------------------------


@pytest.mark.fault(20)
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: b"",
        lambda text: text[: len(text) // 2],
        lambda text: b"\xff" + text[1:],
        lambda text: b"[" * 10_000,
        lambda text: text.replace(b'"format": 2', b'"format": 0'),
        lambda text: text.replace(b"cpython-3", b"cpython-2"),
        lambda text: text.replace(b'"core": "', b'"core": "9'),
        lambda text: json.dumps({**json.loads(text), "notes": 7}).encode(),
        lambda text: json.dumps({**json.loads(text), "drivers": [["/lib/libacme.so", 1, 1]]}).encode(),
    ],
)
def test_verdict_that_is_damaged_or_of_another_interpreter(scene, caplog, damage):
    scene.add()
    scene.registry.examine("Faulty")
    (file,) = (scene.root / "cache" / "passed").iterdir()
    good = json.loads(file.read_bytes())
    file.write_bytes(damage(file.read_bytes()))
    scene.restart()
    with caplog.at_level(logging.DEBUG, "dovetail"):
        assert scene.registry.examine("Faulty").state is BackendState.AVAILABLE
    assert "was probed in" in caplog.text  # the verdict was not used
    assert json.loads(file.read_bytes())["identity"] == good["identity"]  # and was made again


@pytest.mark.fault(20)
def test_good_verdict_is_used(scene, caplog):
    scene.add()
    notes = scene.registry.examine("Faulty").notes
    scene.restart()
    with caplog.at_level(logging.DEBUG, "dovetail"):
        assert scene.registry.examine("Faulty").notes == notes
        assert "was probed in" not in caplog.text
        file = scene.site / "faulty_faulty" / "__init__.py"
        file.write_text(file.read_text() + "\n# changed\n")
        scene.restart()
        scene.registry.examine("Faulty")
    assert "was probed in" in caplog.text
