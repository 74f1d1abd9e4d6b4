"""Test faults 32 to 37 of docs/faults.md: folders and links that others can change."""

import contextlib
import os
import socket
import stat
import subprocess
import sys
import threading
import time

import pytest
from faults.building import header

from dovetail import BackendError
from dovetail.discovery.reasons import Refused
from dovetail.discovery.registry import BackendState, Registry
from dovetail.discovery.search_path import open_safe, safe_folder

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")


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


def test_safe_folder_names_what_is_not_absolute():
    with pytest.raises(Refused, match="no absolute path"):
        safe_folder("relative")
