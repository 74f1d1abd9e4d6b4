"""Test fault 23 of docs/faults.md: libraries and packages that differ from their lock."""

import importlib
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from faults.scene import GOOD

from dovetail import BackendError
from dovetail.discovery.registry import BackendState


@pytest.mark.fault(23)
def test_three_hundred_flipped_bits_against_a_lock(scene, built, monkeypatch):
    path = scene.put(built("faulty"))
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
    scene.lock()
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


@pytest.mark.fault(23)
@pytest.mark.parametrize("where", ["folder", "folder in a folder", "folder around it", "cache"])
def test_what_can_be_imported_beside_locked_files_is_locked(scene, monkeypatch, where):
    folder = scene.add()
    (folder / "inner").mkdir()
    scene.lock()
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
    scene.lock()
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
    monkeypatch.setenv("PYTHONPATH", str(packed), prepend=os.pathsep)
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
    scene.lock()
    scene.restart()
    assert scene.works().state is BackendState.LOADED
    assert cached.read_bytes() == content


@pytest.mark.fault(23)
@pytest.mark.parametrize("problem", ["FIFO", "folder", "others can write it", "device"])
def test_lock_that_is_not_to_be_believed_lets_nothing_in(scene, monkeypatch, problem):
    scene.add()
    lock = scene.lock()
    if problem == "others can write it":
        lock.chmod(0o666)
    elif problem == "device":
        monkeypatch.setenv("DOVETAIL_LOCK", "/dev/zero")
    else:
        lock.unlink()
        os.mkfifo(lock) if problem == "FIFO" else lock.mkdir()
    scene.refused("HASH_MISMATCH", within=30.0)
