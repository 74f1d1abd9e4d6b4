"""What is remembered of backends that were probed, and where that cannot be trusted or kept."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from dovetail.discovery import verdicts
from dovetail.discovery.candidates import Candidate
from dovetail.discovery.content import Files
from dovetail.discovery.verdicts import Verdict, VerdictStore, leads_of

CANDIDATE = Candidate("Fake", "fake:Backend", "fake", "1.0", "fake:Backend")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("DOVETAIL_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def files(tmp_path: Path) -> Files:
    path = tmp_path / "library.so"
    path.write_bytes(b"content")
    return Files({"library.so": str(path)}, (str(tmp_path),))


def verdict_on(files: Files, **changes: Any) -> Verdict:
    identity, stamps, stamped_ns = VerdictStore().identify(files)
    return Verdict("Fake", identity, **{"stamps": stamps, "stamped_ns": stamped_ns, **changes})


def test_verdict_survives_the_process(cache: Path, files: Files) -> None:
    VerdictStore().keep(verdict_on(files, notes=["seen"]))
    found = VerdictStore().passed(CANDIDATE, files)
    assert found is not None
    assert found.notes == ["seen"]
    assert [path.name for path in (cache / "passed").iterdir()] == ["Fake.json"]
    assert (cache / "passed").stat().st_mode & 0o777 == 0o700


def test_content_decides_not_the_time_of_change(cache: Path, files: Files) -> None:
    path = Path(files.names["library.so"])
    store = VerdictStore()
    store.keep(verdict_on(files))
    for when in (0, time.time() + 86_400, time.time() - 86_400):
        os.utime(path, (when, when))
        assert VerdictStore().passed(CANDIDATE, files) is not None
    facts = path.stat()
    path.write_bytes(b"CONTENT")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert VerdictStore().passed(CANDIDATE, files) is None


def test_files_that_were_read_are_not_read_again(cache: Path, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times differ, content is the same, as in containers of one image or after an install."""
    monkeypatch.setattr(verdicts, "RACY_NS", -1)  # what was written just now counts as settled
    VerdictStore().keep(verdict_on(files))
    os.utime(files.names["library.so"], (1e9, 1e9))
    read, digests = [], Files.digests
    monkeypatch.setattr(Files, "digests", lambda self: read.append(self) or digests(self))
    for _ in range(3):
        assert VerdictStore().passed(CANDIDATE, files) is not None
    assert len(read) == 1


def test_file_that_is_new_or_gone_ends_a_verdict(cache: Path, files: Files, tmp_path: Path) -> None:
    VerdictStore().keep(verdict_on(files))
    (tmp_path / "more.so").write_bytes(b"")
    more = Files({**files.names, "more.so": str(tmp_path / "more.so")}, files.folders)
    assert VerdictStore().passed(CANDIDATE, more) is None
    assert VerdictStore().passed(CANDIDATE, Files({}, ())) is None


def test_driver_that_was_replaced_ends_a_verdict(cache: Path, files: Files, tmp_path: Path) -> None:
    driver = tmp_path / "libdriver.so"
    driver.write_bytes(b"1")
    facts = driver.stat()
    VerdictStore().keep(verdict_on(files, drivers=[(str(driver), facts.st_size, facts.st_mtime_ns)]))
    assert VerdictStore().passed(CANDIDATE, files) is not None
    driver.write_bytes(b"22")
    assert VerdictStore().passed(CANDIDATE, files) is None
    driver.unlink()
    assert VerdictStore().passed(CANDIDATE, files) is None


@pytest.mark.parametrize("code", ["", "PROBE_CRASHED"])
def test_another_way_to_drivers_ends_a_verdict(
    cache: Path, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """A variable or a folder, of those that the manifest names, leads to another driver."""
    folder, library = tmp_path / "drivers", tmp_path / "other.so"
    folder.mkdir()
    library.write_bytes(b"1")
    candidate = CANDIDATE._replace(manifest={"drivers": ["ACME_DRIVER", str(folder)]})

    def holds() -> bool:
        store = VerdictStore()
        return (store.quarantined(candidate, lambda: files) if code else store.passed(candidate, files)) is not None

    def keep() -> None:
        VerdictStore().keep(verdict_on(files, code=code, leads=leads_of(candidate)))
        assert holds()

    keep()
    monkeypatch.setenv("ACME_DRIVER", str(library))
    assert not holds()
    keep()
    library.write_bytes(b"22")  # where a variable leads to counts as well
    assert not holds()
    keep()
    (folder / "acme.icd").write_text("libacme.so")
    assert not holds()
    keep()
    monkeypatch.setenv("ELSE", "other")
    assert holds()
    monkeypatch.delenv("ACME_DRIVER")
    assert not holds()


def test_quarantine_counts_and_is_released(cache: Path, files: Files) -> None:
    for count in (1, 2):
        VerdictStore().keep(verdict_on(files, code="PROBE_CRASHED", reason="it crashed", signal=11))
        found = VerdictStore().quarantined(CANDIDATE, lambda: files)
        assert found is not None
        assert (found.count, found.signal) == (count, 11)
        assert VerdictStore().passed(CANDIDATE, files) is None
    assert [one.id for one in VerdictStore().quarantine()] == ["Fake"]
    assert VerdictStore().release("Fake")
    assert VerdictStore().quarantined(CANDIDATE, lambda: files) is None
    assert not VerdictStore().release("Fake")


def test_new_content_leaves_the_quarantine(cache: Path, files: Files) -> None:
    VerdictStore().keep(verdict_on(files, code="PROBE_TIMEOUT", reason="it hung"))
    Path(files.names["library.so"]).write_bytes(b"repaired")
    assert VerdictStore().quarantined(CANDIDATE, lambda: files) is None


@pytest.mark.parametrize("mode", [0o777, 0o775])
@pytest.mark.parametrize("which", ["", "passed", "passed/Fake.json"])
def test_verdicts_that_others_can_write_count_for_nothing(cache: Path, files: Files, mode: int, which: str) -> None:
    VerdictStore().keep(verdict_on(files))
    (cache / which).chmod(mode)
    assert VerdictStore().passed(CANDIDATE, files) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")
@pytest.mark.parametrize("which", ["", "passed", "passed/Fake.json"])
def test_verdicts_of_another_user_count_for_nothing(cache: Path, files: Files, which: str) -> None:
    VerdictStore().keep(verdict_on(files))
    os.chown(cache / which, 12345, 12345)
    assert VerdictStore().passed(CANDIDATE, files) is None


@pytest.mark.parametrize("how", ["no home", "no folder", "full"])
def test_where_nothing_can_be_written_verdicts_last_as_long_as_the_process(
    cache: Path, files: Files, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    if how == "no home":
        monkeypatch.setenv("DOVETAIL_CACHE_DIR", "relative/and/so/ignored")
    elif how == "no folder":
        cache.write_text("a file is in the way")
    else:

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
    store = VerdictStore()
    with caplog.at_level("INFO", "dovetail"):
        store.keep(verdict_on(files, notes=["kept"]))
        store.keep(verdict_on(files, notes=["kept"]))
    assert len(caplog.records) == 1
    found = store.passed(CANDIDATE, files)
    assert found is not None
    assert found.notes == ["kept"]
    assert VerdictStore().passed(CANDIDATE, files) is None
    if how == "full":
        assert list((cache / "passed").iterdir()) == []


def test_what_a_killed_process_left_behind_is_swept(cache: Path, files: Files) -> None:
    VerdictStore().keep(verdict_on(files))
    old, new = cache / "passed" / ".writing-Old.1.1", cache / "passed" / ".writing-New.1.1"
    for path in (old, new):
        path.write_text("{")
    os.utime(old, (0, 0))
    VerdictStore().keep(verdict_on(files))
    assert sorted(path.name for path in (cache / "passed").iterdir()) == [".writing-New.1.1", "Fake.json"]
