"""Test faults 21 to 38 of docs/faults.md: damaged libraries, forbidden folders, false manifests."""

import contextlib
import importlib
import importlib.util
import json
import os
import pwd
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest
from faults.building import compile_c, extension, header, manifest
from faults.scene import GOOD

from dovetail import BackendError
from dovetail.discovery import elf, scanning
from dovetail.discovery.content import files_of
from dovetail.discovery.reasons import Refused
from dovetail.discovery.registry import BackendState, Registry
from dovetail.discovery.search_path import open_safe, safe_folder
from dovetail.ground import settings

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")


def put(scene, library, name="faulty.so"):
    """Put a library into the searched folder, and search it."""
    path = scene.folder / name
    path.write_bytes(library if isinstance(library, bytes) else library.read_bytes())
    scene.packages.add("faulty")
    scene.scan()
    return path


def in_package(scene, library):
    """Put a library into a package that imports it."""
    folder = scene.add(source="from . import core\nBackend = core.Backend")
    (folder / "core.so").write_bytes(library if isinstance(library, bytes) else library.read_bytes())
    return folder / "core.so"


def test_good_library_in_a_searched_folder_works(scene, built):
    path = put(scene, built("faulty"))
    assert scene.row().state is BackendState.AVAILABLE
    row = scene.works()
    assert (row.state, row.path, row.step) == (BackendState.LOADED, str(path), "load")


# -- bytes -----------------------------------------------------------------------------------------


@pytest.mark.fault(21)
def test_empty_library(scene):
    path = put(scene, b"")
    row = scene.row_of(path)
    assert (row.code, row.step, row.state) == ("NOT_ELF", "bytes", BackendState.BROKEN)
    assert "empty" in row.reason


@pytest.mark.fault(21)
def test_empty_library_in_a_package(scene):
    path = in_package(scene, b"")
    scene.refused("NOT_ELF", where=path)


def lengths_of(library):
    """Return twenty lengths to cut a library to: header, tables, segments, the last byte."""
    whole = library.read_bytes()
    with library.open("rb") as file:
        head = elf.check(file.fileno(), str(library))
    start, each, count = head.segments
    fixed = [5, 20, 63, start + 1, start + each, start + each * count - 1]
    begin, each, count = head.sections
    fixed += [begin - 1, begin, begin + 1, begin + each * count - 1]
    steps = [len(whole) * part // 11 for part in range(1, 11)]
    return sorted({length for length in (*fixed, *steps) if 4 <= length < len(whole)})[:20]


@pytest.mark.fault(22)
def test_library_cut_short_at_twenty_lengths(scene, built):
    library = built("faulty")
    lengths = lengths_of(library)
    assert len(lengths) == 20
    for number, length in enumerate(lengths):
        (scene.folder / f"cut{number:02}.so").write_bytes(library.read_bytes()[:length])
    scene.scan()
    rows = [row for row in scene.registry.rows() if row.origin.startswith(str(scene.folder))]
    assert [row.code for row in rows] == ["TRUNCATED"] * 20


@pytest.mark.fault(22)
def test_library_of_a_package_cut_short(scene, built, monkeypatch):
    """The check runs before anything is imported, in this process too: it would die of SIGBUS."""
    monkeypatch.setenv("DOVETAIL_PROBE", "off")
    library = built("core", content=None)
    path = in_package(scene, library.read_bytes()[: library.stat().st_size // 3])
    error = scene.refused("TRUNCATED", where=path)
    assert "bytes" in error.message or "byte" in error.message


@pytest.mark.fault(23)
def test_three_hundred_flipped_bits_against_a_lock(scene, built, monkeypatch):
    path = put(scene, built("faulty"))
    good = path.read_bytes()
    lock = scene.root / "dovetail.lock"
    done = subprocess.run(
        [sys.executable, "-m", "dovetail_sdk", "lock", "Faulty", "-o", lock], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("DOVETAIL_LOCK", str(lock))
    assert scene.registry.examine("Faulty").state is BackendState.AVAILABLE
    chance = random.Random(23)
    codes = []
    for _ in range(300):
        damaged = bytearray(good)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        scene.registry.refresh()
        (row,) = [row for row in scene.registry.rows() if row.origin == str(path)] or [None]
        if row is not None and row.state.is_ready:
            row = scene.registry.examine(row.id)
        codes.append(row.code if row is not None else "no manifest")
    refused_before = {"NOT_ELF", "TRUNCATED", "WRONG_ARCH", "BAD_MANIFEST", "BAD_ID", "ABI_MAJOR", "ABI_MINOR_NEWER"}
    assert set(codes) <= {"HASH_MISMATCH", "no manifest"} | refused_before
    assert codes.count("HASH_MISMATCH") > 270
    path.write_bytes(good)
    scene.registry.refresh()
    assert scene.works().state is BackendState.LOADED


@pytest.mark.fault(23)
@pytest.mark.parametrize("change", ["altered", "added", "removed"])
def test_package_that_differs_from_its_lock(scene, monkeypatch, change):
    folder = scene.add()
    (folder / "table.bin").write_bytes(b"1234")
    lock_of(scene, monkeypatch)
    {
        "altered": lambda: (folder / "table.bin").write_bytes(b"1235"),
        "added": lambda: (folder / "more.py").write_text(""),
        "removed": lambda: (folder / "table.bin").unlink(),
    }[change]()
    error = scene.refused("HASH_MISMATCH")
    assert "more.py" in error.message if change == "added" else "table.bin" in error.message


@pytest.mark.fault(23)
@pytest.mark.parametrize("text", [None, "", "[]", '{"Faulty": 7}', '{"Faulty": {"a": 1}}'])
def test_lock_that_cannot_be_read_lets_nothing_in(scene, monkeypatch, text):
    scene.add()
    lock = scene.root / "dovetail.lock"
    if text is not None:
        lock.write_text(text)
    monkeypatch.setenv("DOVETAIL_LOCK", str(lock))
    with pytest.raises(BackendError) as caught:
        scene.registry.get("Faulty")
    assert caught.value.details["reason_code"] == "HASH_MISMATCH"


def lock_of(scene, monkeypatch):
    """Lock the backend as it is now; returns the lock file."""
    (candidate,) = [one for one in scene.registry.candidates() if one.id == "Faulty"]
    lock = scene.root / "dovetail.lock"
    lock.write_text(json.dumps({"Faulty": files_of(candidate).digests()}))
    monkeypatch.setenv("DOVETAIL_LOCK", str(lock))
    return lock


@pytest.mark.fault(23)
@pytest.mark.parametrize("where", ["folder", "folder in a folder", "folder around it", "cache"])
def test_what_can_be_imported_beside_locked_files_is_locked(scene, monkeypatch, where):
    folder = scene.add()
    (folder / "inner").mkdir()
    lock_of(scene, monkeypatch)
    other = scene.root / "other"
    other.mkdir()
    (other / "more.py").write_text("")
    if where == "cache":
        (folder / "__pycache__").mkdir(exist_ok=True)
        (folder / "__pycache__" / "more.py").write_text("")
    else:
        place = folder / "inner" if where == "folder in a folder" else folder
        (place / "linked").symlink_to(folder if where == "folder around it" else other)
    error = scene.refused("HASH_MISMATCH")
    assert ("linked" if where == "folder around it" else "more.py") in error.message


@pytest.mark.fault(23)
def test_linked_folder_is_locked_too(scene, monkeypatch):
    folder = scene.add()
    other = scene.root / "other"
    other.mkdir()
    (other / "more.py").write_text("")
    (folder / "linked").symlink_to(other)
    lock_of(scene, monkeypatch)
    assert scene.works().state is BackendState.LOADED
    scene.restart()
    (other / "more.py").write_text("changed = True")
    scene.refused("HASH_MISMATCH")


@pytest.mark.fault(23)
def test_package_in_an_archive_is_left_out_of_a_lock(scene, monkeypatch):
    scene.add()
    packed = scene.root / "packed.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in scene.site.rglob("*"):
            archive.write(path, path.relative_to(scene.site).as_posix())
    shutil.rmtree(scene.site / "faulty_faulty")
    monkeypatch.setenv("PYTHONPATH", str(packed))
    lock = scene.root / "dovetail.lock"
    for ids, code in (([], 0), (["Faulty"], 1)):
        command = [sys.executable, "-m", "dovetail_sdk", "lock", *ids, "-o", lock]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert "archive" in done.stderr
        assert "defect" not in done.stderr
    assert "Faulty" not in json.loads(lock.read_text())


@pytest.mark.fault(23)
@pytest.mark.parametrize("kind", ["unchecked", "checked", "time"])
def test_forged_byte_code_of_a_locked_backend_is_not_run(scene, monkeypatch, kind):
    """Python takes it for the source beside it; the source is what the lock lists."""
    folder = scene.add(source="from . import late\n" + GOOD)
    late = folder / "late.py"
    late.write_text("")
    forged = compile("raise SystemExit('forged')", str(late), "exec")
    source = late.read_bytes()
    if kind == "time":
        facts = late.stat()
        content = importlib._bootstrap_external._code_to_timestamp_pyc(forged, int(facts.st_mtime), facts.st_size)
    else:
        content = importlib._bootstrap_external._code_to_hash_pyc(forged, importlib.util.source_hash(source), kind == "checked")
    cached = Path(importlib.util.cache_from_source(str(late)))
    cached.parent.mkdir(exist_ok=True)
    cached.write_bytes(content)
    error = scene.refused("IMPORT_FAILED")  # this is how it is without a lock: the file would have been run
    assert "forged" in error.message
    lock_of(scene, monkeypatch)
    scene.restart()
    assert scene.works().state is BackendState.LOADED
    assert cached.read_bytes() == content


@pytest.mark.fault(23)
@pytest.mark.parametrize("problem", ["FIFO", "folder", "others can write it", "device"])
def test_lock_that_is_not_to_be_believed_lets_nothing_in(scene, monkeypatch, problem):
    scene.add()
    lock = lock_of(scene, monkeypatch)
    if problem == "others can write it":
        lock.chmod(0o666)
    elif problem == "device":
        monkeypatch.setenv("DOVETAIL_LOCK", "/dev/zero")
    else:
        lock.unlink()
        os.mkfifo(lock) if problem == "FIFO" else lock.mkdir()
    scene.refused("HASH_MISMATCH", within=30.0)


def test_configuration_that_is_a_fifo_is_passed_over(scene, monkeypatch, caplog):
    config = scene.root / "config" / "dovetail"
    config.mkdir(parents=True)
    os.mkfifo(config / "config.toml")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config.parent))
    assert settings.configuration() == {}
    assert "no regular file" in caplog.text


def test_process_with_more_rights_does_not_obey_the_callers_home(scene, monkeypatch):
    config = scene.root / ".config" / "dovetail"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('backend_path = "/evil"\n')
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "DOVETAIL_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(scene.root))
    assert settings.configuration() == {"backend_path": "/evil"}
    assert settings.cache_folder() == str(scene.root / ".cache" / "dovetail")
    monkeypatch.setattr(settings, "is_secure", lambda: True)
    assert settings.configuration() == {}
    assert settings.cache_folder() == str(Path(pwd.getpwuid(os.geteuid()).pw_dir, ".cache", "dovetail"))


@pytest.mark.parametrize("home", ["/" + "a" * 5000, "/" + "/".join(["a" * 200] * 20), "/" + "/".join(["a" * 200] * 25)])
def test_home_that_is_too_long_is_none(scene, home):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "DOVETAIL_CACHE"))}
    for command in (["doctor"], ["quarantine", "list"]):
        done = subprocess.run(
            [sys.executable, "-m", "dovetail_sdk", *command],
            check=False,
            capture_output=True,
            text=True,
            env={**environment, "HOME": home},
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert "Traceback" not in done.stderr


FOREIGN = {
    "32 bits": (header(1, "<", 3), "WRONG_ARCH", "x86 (32 bit)"),
    "AArch64": (header(2, "<", 183), "WRONG_ARCH", "AArch64"),
    "big-endian": (header(2, ">", 21), "WRONG_ARCH", "PowerPC64 (64 bit big-endian)"),
    "program": (header(kind=2), "NOT_ELF", "type 2"),
    "object file": (header(kind=1), "NOT_ELF", "type 1"),
    "PE": (b"MZ\x90\x00" + bytes(200), "NOT_ELF", "Windows"),
    "Mach-O": (b"\xcf\xfa\xed\xfe\x07\x00\x00\x01" + bytes(200), "NOT_ELF", "macOS"),
    "fat Mach-O": (b"\xca\xfe\xba\xbe" + bytes(200), "NOT_ELF", "macOS"),
    "archive": (b"!<arch>\n" + bytes(60), "NOT_ELF", "archive"),
    "text": (b"GROUP ( /lib/libacme.so )\n", "NOT_ELF", "text"),
    "no class": (b"\x7fELF\x07" + bytes(100), "NOT_ELF", "class 7"),
}


@pytest.mark.fault(24)
@pytest.mark.parametrize("kind", FOREIGN)
def test_library_for_another_system(scene, kind):
    content, code, text = FOREIGN[kind]
    if os.uname().machine != "x86_64" and code == "WRONG_ARCH":
        pytest.skip("the headers are those of other processors than x86-64")
    path = put(scene, content)
    row = scene.row_of(path)
    assert (row.code, row.step) == (code, "bytes")
    assert text in row.reason
    in_package(scene, content)
    scene.restart()
    error = scene.refused(code)
    assert text in error.message


# -- what the dynamic loader says ------------------------------------------------------------------


@pytest.mark.fault(25)
def test_library_whose_driver_is_missing(scene, tmp_path):
    driver = tmp_path / "libacmedriver.so.3"
    (tmp_path / "driver.c").write_text("int acme_driver_version(void) { return 3; }\n")
    compile_c(driver, tmp_path / "driver.c", "-Wl,-soname,libacmedriver.so.3")
    library = extension(tmp_path / "faulty.so", "Faulty", "NEEDS_LIBRARY", driver)
    driver.unlink()
    put(scene, library)
    error = scene.refused("MISSING_DEPENDENCY")
    assert error.details["library"] == "libacmedriver.so.3"


@pytest.mark.fault(26)
@pytest.mark.parametrize("probe", ["on", "off"])
def test_undefined_symbol_is_found_at_load(scene, built, monkeypatch, probe):
    monkeypatch.setenv("DOVETAIL_PROBE", probe)
    put(scene, built("faulty", fault="UNDEFINED"))
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
    put(scene, library)
    error = scene.refused("MISSING_DEPENDENCY")
    assert error.details["version"] == "ACME_2.99"


CRASHES = {"SIGSEGV": signal.SIGSEGV, "SIGILL": signal.SIGILL, "SIGFPE": signal.SIGFPE, "ABORT": signal.SIGABRT}


@pytest.mark.fault(28)
@pytest.mark.parametrize("fault", CRASHES)
@pytest.mark.parametrize("where", ["folder", "package"])
def test_crash_at_load(scene, built, monkeypatch, fault, where):
    if where == "folder":
        put(scene, built("faulty", fault=fault))
    else:
        in_package(scene, built("core", fault=fault, content=None))
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
    put(scene, built("faulty", fault="ABORT"))
    scene.refused("PROBE_CRASHED")
    assert scene.registry.release("Faulty")
    assert not scene.registry.release("Faulty")
    assert scene.row().state is BackendState.AVAILABLE
    scene.refused("PROBE_CRASHED")  # it is tried again, and crashes again
    put(scene, built("faulty"))  # the repaired one is not held to it
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
    path = put(scene, built("faulty"))
    assert scene.row().state is BackendState.AVAILABLE
    os.replace(shutil.copy(built("faulty", fault="ABORT"), scene.root / "new.so"), path)
    scene.refused("CHANGED_DURING_LOAD", where=path)


@pytest.mark.fault(30)
@pytest.mark.parametrize("probe", ["on", "off"])
def test_library_replaced_while_it_is_loaded(scene, built, monkeypatch, probe):
    monkeypatch.setenv("DOVETAIL_PROBE", probe)
    path = put(scene, built("faulty", fault="REPLACED"))
    monkeypatch.setenv("DOVETAIL_FAULT_NEW", str(shutil.copy(built("faulty"), scene.root / "new.so")))
    monkeypatch.setenv("DOVETAIL_FAULT_OLD", str(path))
    scene.refused("CHANGED_DURING_LOAD", where=path)


@pytest.mark.fault(31)
def test_library_replaced_after_it_was_loaded(scene, built):
    path = put(scene, built("faulty"))
    assert not scene.works().stale
    os.replace(shutil.copy(built("faulty", "Other"), scene.root / "new.so"), path)
    assert scene.works().stale  # the running copy goes on
    assert scene.works().state is BackendState.LOADED


# -- places ----------------------------------------------------------------------------------------


def refusal_of(scene, folder, *trusted):
    """Search a folder that must be refused; returns its row."""
    scene.trust(*(trusted or (scene.root,)))
    scene.monkeypatch.setenv("DOVETAIL_BACKEND_PATH", str(folder))
    scene.registry.refresh()
    (row,) = [row for row in scene.registry.rows() if row.origin == str(folder)]
    assert (row.id, row.state, row.step) == ("", BackendState.BROKEN, "place")
    with pytest.raises(BackendError) as caught:
        scene.registry.scan(folder)
    assert caught.value.details["reason_code"] == row.code
    return row


@pytest.mark.fault(32)
@pytest.mark.parametrize(("mode", "who"), [(0o777, "anybody"), (0o775, "group"), (0o1777, "anybody")])
@pytest.mark.parametrize("which", ["folder", "parent"])
def test_folder_that_others_can_write(scene, built, mode, who, which):
    scene.folder = scene.root / "parent" / "plugins"
    scene.folder.mkdir(parents=True)
    for one in (scene.folder, scene.folder.parent):
        one.chmod(0o755)
    guilty = scene.folder if which == "folder" else scene.folder.parent
    guilty.chmod(mode)
    (scene.folder / "faulty.so").write_bytes(built("faulty", fault="ABORT").read_bytes())
    row = refusal_of(scene, scene.folder)
    assert row.code == "UNSAFE_PATH"
    assert row.path == str(guilty)
    assert who in row.reason
    assert f"{mode:04o}" in row.reason


@pytest.mark.fault(32)
def test_folder_that_others_can_write_may_be_answered_for(scene, built, caplog):
    """Whoever answers for a folder does so by its path; this is logged."""
    scene.folder.chmod(0o777)
    (scene.folder / "faulty.so").write_bytes(built("faulty").read_bytes())
    with caplog.at_level("INFO", "dovetail"):
        scene.trust(scene.folder)
        scene.monkeypatch.setenv("DOVETAIL_BACKEND_PATH", str(scene.folder))
        scene.registry.refresh()
    assert scene.row().state is BackendState.AVAILABLE
    assert str(scene.folder) in caplog.text
    registry = Registry()
    scene.monkeypatch.delenv("DOVETAIL_BACKEND_PATH")
    scene.trust()
    assert [row.id for row in registry.scan(scene.folder, trust=True)] == ["Faulty"]


@pytest.mark.fault(32)
@pytest.mark.parametrize("mode", [0o666, 0o664])
def test_library_that_others_can_write(scene, built, mode):
    path = scene.folder / "faulty.so"
    path.write_bytes(built("faulty", fault="ABORT").read_bytes())
    path.chmod(mode)
    scene.scan()
    row = scene.row_of(path)
    assert (row.code, row.step, row.path) == ("UNSAFE_PATH", "place", str(path))


@pytest.mark.fault(32)
@as_root
@pytest.mark.parametrize("which", ["folder", "file"])
def test_folder_or_library_of_another_user(scene, built, which):
    path = scene.folder / "faulty.so"
    path.write_bytes(built("faulty", fault="ABORT").read_bytes())
    if which == "folder":
        os.chown(scene.folder, 12345, 12345)
        row = refusal_of(scene, scene.folder)
    else:
        os.chown(path, 12345, 12345)
        scene.scan()
        row = scene.row_of(path)
    assert row.code == "UNSAFE_PATH"
    assert "belongs to user 12345" in row.reason


@pytest.mark.fault(33)
@pytest.mark.parametrize("kind", ["out", "absolute", "up and in again", "loop", "dangling", "to a folder"])
def test_link_in_a_searched_folder(scene, built, kind):
    outside = scene.root / "outside.so"
    outside.write_bytes(built("faulty", fault="ABORT").read_bytes())
    link = scene.folder / "faulty.so"
    target = {"out": "../outside.so", "absolute": str(outside), "up and in again": "../plugins/real.so"} | {
        "loop": "other.so",
        "dangling": "absent.so",
        "to a folder": ".",
    }
    link.symlink_to(target[kind])
    if kind == "loop":
        (scene.folder / "other.so").symlink_to("faulty.so")
    scene.scan()
    row = scene.row_of(link)
    assert row.code == "UNSAFE_PATH"
    assert str(scene.folder) in row.reason


@pytest.mark.fault(33)
def test_searched_folder_that_is_reached_by_links(scene, built):
    (scene.folder / "faulty.so").write_bytes(built("faulty").read_bytes())
    (scene.root / "good").symlink_to("plugins")
    scene.scan(scene.root / "good")
    assert scene.row().path == str(scene.folder / "faulty.so")
    (scene.root / "loop").symlink_to("loop")
    assert refusal_of(scene, scene.root / "loop").code == "UNSAFE_PATH"
    unsafe = scene.root / "unsafe"
    unsafe.mkdir()
    unsafe.chmod(0o777)
    (unsafe / "link").symlink_to(scene.folder)
    assert refusal_of(scene, unsafe / "link").path == str(unsafe)


@pytest.mark.fault(33)
def test_link_that_is_swapped_ten_thousand_times(scene):
    inside, outside, path = scene.folder / "inside", scene.root / "outside", scene.folder / "x.so"
    inside.write_text("inside")
    outside.write_text("outside")
    forbidden = outside.stat().st_ino
    stopped = threading.Event()

    def swap():
        number = 0
        while not stopped.is_set():
            number += 1
            temporary = scene.folder / f"t{number % 2}"
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
            if number % 2:
                temporary.symlink_to(outside)
            else:
                os.link(inside, temporary)
            os.replace(temporary, path)

    thread = threading.Thread(target=swap)
    thread.start()
    opened = refused = turns = 0
    late = time.monotonic() + 60  # both threads share a processor where others are busy: until both answers were seen
    try:
        while turns < 10_000 or not ((opened and refused) or time.monotonic() > late):
            turns += 1
            try:
                descriptor, file = open_safe(str(scene.folder), "x.so")
            except Refused:
                refused += 1
                continue
            os.close(descriptor)
            assert file.inode != forbidden
            opened += 1
    finally:
        stopped.set()
        thread.join()
    assert opened
    assert refused


@pytest.mark.fault(34)
@as_root
def test_hard_link_to_the_file_of_another_user(scene, built):
    foreign = scene.root / "foreign.so"
    foreign.write_bytes(built("faulty", fault="ABORT").read_bytes())
    os.chown(foreign, 12345, 12345)
    os.link(foreign, scene.folder / "faulty.so")
    scene.scan()
    row = scene.row_of(scene.folder / "faulty.so")
    assert row.code == "UNSAFE_PATH"
    assert "12345" in row.reason


@pytest.mark.fault(35)
@pytest.mark.parametrize("text", ["", ":", "::", ".", "./", "plugins", "../plugins", ":.:"])
def test_empty_and_relative_elements_are_never_the_working_folder(scene, built, monkeypatch, text):
    (scene.folder / "libdovetail_faulty.so").write_bytes(built("faulty", fault="ABORT").read_bytes())
    monkeypatch.chdir(scene.folder)
    scene.scan(text or ":")
    assert "Faulty" not in {row.id for row in scene.registry.rows()}
    for row in scene.registry.rows():
        if row.id == "":
            assert row.code == "UNSAFE_PATH"
            assert "absolute" in row.reason


@pytest.mark.fault(35)
def test_folder_that_does_not_exist(scene):
    assert refusal_of(scene, scene.root / "absent").code == "UNREADABLE"


LIST_AS = """
import logging, os, sys
sys.path[:] = {path!r}
logging.basicConfig(level=logging.INFO, format="%(message)s")
os.setresuid({real}, 0, 0)
from dovetail.discovery.registry import Registry
print([row.id for row in Registry().rows() if row.id == "Faulty" or not row.id])
"""


@pytest.mark.fault(36)
@as_root
@pytest.mark.parametrize("real", [0, 12345])
def test_set_uid_process_takes_no_folder_from_its_caller(scene, built, real):
    (scene.folder / "faulty.so").write_bytes(built("faulty").read_bytes())
    scene.scan()
    done = subprocess.run(
        [sys.executable, "-c", LIST_AS.format(path=sys.path, real=real)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ("['Faulty']" if real == 0 else "[]")
    if real:
        warned = [line for line in done.stderr.splitlines() if "DOVETAIL_BACKEND_PATH is ignored" in line]
        assert len(warned) == 1


@pytest.mark.fault(37)
def test_folder_of_ten_thousand_files(scene, built):
    library = built("faulty").read_bytes()
    for number in range(10_000):
        (scene.folder / f"data{number:05}.{'so' if number % 10 == 0 else 'bin'}").write_bytes(header())
    (scene.folder / "faulty.so").write_bytes(library)
    scene.scan()
    begun = time.process_time()  # other programs on the machine do not count
    scene.registry.refresh()
    assert time.process_time() - begun < 1
    assert scene.row().state is BackendState.AVAILABLE
    (report,) = scene.registry.folders()
    assert len(report.skipped) == 1000
    assert list(report.skipped) == sorted(report.skipped)


@pytest.mark.fault(37)
def test_what_is_no_file_is_not_opened(scene, built, monkeypatch):
    os.mkfifo(scene.folder / "fifo.so")
    (scene.folder / "folder.so").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(scene.folder)
        server.bind("socket.so")
    odd = ["fifo.so", "folder.so", "socket.so"]
    if os.geteuid() == 0:
        os.mknod(scene.folder / "device.so", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
        odd.append("device.so")
    (scene.folder / "faulty.so").write_bytes(built("faulty").read_bytes())
    opened = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest, **more: (opened.append(str(path)), real(path, *rest, **more))[1])
    scene.scan()
    assert scene.row().state is BackendState.AVAILABLE
    (report,) = scene.registry.folders()
    assert report.skipped == dict.fromkeys(sorted(odd), "no regular file")
    assert not [path for path in opened if os.path.basename(path) in odd]


@pytest.mark.fault(37)
@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), PermissionError(13, "Permission denied")])
def test_library_that_cannot_be_read(scene, built, monkeypatch, error):
    (scene.folder / "faulty.so").write_bytes(built("faulty").read_bytes())
    other = built("faulty", "Other")
    (scene.folder / "other.so").write_bytes(other.read_bytes())
    inode = (scene.folder / "faulty.so").stat().st_ino
    function = "open" if isinstance(error, PermissionError) else "pread"
    real = getattr(os, function)

    def failing(first, *rest, **more):
        is_it = first == str(scene.folder / "faulty.so") if function == "open" else os.fstat(first).st_ino == inode
        if is_it:
            raise error
        return real(first, *rest, **more)

    monkeypatch.setattr(os, function, failing)
    scene.scan()
    row = scene.row_of(scene.folder / "faulty.so")
    assert row.code == "UNREADABLE"
    assert error.strerror in row.reason
    assert scene.row("Other").state is BackendState.AVAILABLE


# -- manifests -------------------------------------------------------------------------------------

MANIFESTS = {
    "empty": "",
    "cut short": '{"id": "Faulty"',
    "deep": "[" * 10_000,
    "deep within": '{"id": "Faulty", "claims": ' + '{"a":' * 10_000,
    "key twice": '{"id": "Faulty", "id": "Faulty"}',
    "NaN": json.dumps(manifest("Faulty")).replace('"rank": 1', '"rank": NaN'),
    "infinite": json.dumps(manifest("Faulty")).replace('"rank": 1', '"rank": -Infinity'),
    "real rank": json.dumps(manifest("Faulty", rank=1.5)),
    "large rank": json.dumps(manifest("Faulty", rank=10**12)),
    "endless rank": json.dumps(manifest("Faulty")).replace('"rank": 1', '"rank": ' + "9" * 9999),
    "text": '"Faulty"',
    "null": "null",
    "missing": '{"id": "Faulty"}',
    "other": json.dumps(manifest("Other")),
    "escape codes": json.dumps(manifest("Faulty", description="\u001b[2J")),
    "abi": json.dumps(manifest("Faulty", abi=[0])),
    "negative abi": json.dumps(manifest("Faulty", abi=[0, -1])),
    "library elsewhere": json.dumps(manifest("Faulty", library="../libacme.so")),
    "module": json.dumps(manifest("Faulty", module="no name")),
    "claims": json.dumps(manifest("Faulty", claims=[])),
    "no UTF-8": b'{"id": "\xff"}',
}


@pytest.mark.fault(38)
@pytest.mark.parametrize("kind", MANIFESTS)
def test_manifest_of_a_package(scene, kind):
    folder = scene.add(source="raise SystemExit('imported')", content=None)
    content = MANIFESTS[kind]
    path = folder / "dovetail-backend.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    scene.refused("BAD_MANIFEST", where=path)


@pytest.mark.fault(38)
def test_manifest_of_a_hundred_megabytes(scene):
    path = scene.add(source="raise SystemExit('imported')") / "dovetail-backend.json"
    os.truncate(path, 100 << 20)
    begun = time.process_time()
    assert scene.row().code == "BAD_MANIFEST"
    assert time.process_time() - begun < 1


@pytest.mark.fault(38)
@pytest.mark.parametrize("kind", ["empty", "cut short", "key twice", "NaN", "missing", "escape codes", "abi", "claims"])
def test_manifest_in_a_library(scene, built, kind):
    path = put(scene, built("faulty", fault="ABORT", content=MANIFESTS[kind]))
    row = scene.row_of(path)
    assert (row.code, row.step, row.path) == ("BAD_MANIFEST", "list", str(path))


@pytest.mark.fault(38)
def test_manifest_in_a_library_is_capped(scene, tmp_path):
    (tmp_path / "large.c").write_text(
        'asm(".section .dovetail,\\"a\\"\\n.fill 70000, 1, 0x20\\n.byte 0\\n.text");\nint nothing(void) { return 0; }\n'
    )
    path = put(scene, compile_c(tmp_path / "large.so", tmp_path / "large.c"))
    assert "larger than 65536" in scene.row_of(path).reason


@pytest.mark.fault(38)
def test_claims_are_looked_at_before_the_backend_is_loaded(scene):
    scene.add(
        source="raise SystemExit('imported')", content=manifest("Faulty", claims={"dovetail.Add": [{"dtypes": ["float33"]}]})
    )
    error = scene.refused("BAD_MANIFEST")
    assert "dtypes" in error.message


@pytest.mark.fault(38)
def test_library_without_a_manifest_is_no_backend(scene, built):
    put(scene, built("faulty", content=None))
    (report,) = scene.registry.folders()
    assert report.skipped == {"faulty.so": "carries no manifest, so it is no backend"}


def test_preflight_reads_but_headers(built, monkeypatch):
    read = []
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, count, at: (read.append(count), real(fd, count, at))[1])
    with built("faulty").open("rb") as file:
        head = elf.check(file.fileno(), "x")
        assert sum(read) < 2048
        assert b'"Faulty"' in elf.section(file.fileno(), head, scanning.SECTION, 65536)
    assert sum(read) < 16384


def test_safe_folder_names_what_is_not_absolute():
    with pytest.raises(Refused, match="no absolute path"):
        safe_folder("relative")
