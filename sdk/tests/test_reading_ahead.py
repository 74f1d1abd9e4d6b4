"""Pictures that are decoded while the network runs on others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from PIL import Image

from dovetail_sdk import reading_ahead
from dovetail_sdk.pictures import decoded_bytes
from dovetail_sdk.reading_ahead import in_order

Invoke = Callable[..., Result]


def size_of(path: Path) -> int:
    return decoded_bytes(path, is_resized=False)


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    """Thirty pictures, an array and a file that is none among them."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(30):
        Image.new("RGB", (10, 10), (8 * number, 0, 0)).save(folder / f"{number:02}.png")
    np.save(folder / "07a.npy", np.zeros(3))
    (folder / "11a.png").write_bytes(b"no picture")
    return sorted(folder.iterdir())


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 100])
def test_the_order_is_kept_and_errors_are_of_their_file(pictures: list[Path], threads: int) -> None:
    rng = np.random.default_rng(threads)
    waits = {path: float(rng.uniform(0, 0.004)) for path in pictures}

    def read(path: Path) -> str:
        time.sleep(waits[path])
        if path.stem in ("00", "11a", "29"):
            raise ValueError(path.stem)
        return path.stem

    found = []
    for path, take in in_order(pictures, read, threads, size_of):
        if path.stem in ("00", "11a", "29"):
            with pytest.raises(ValueError, match=f"^{path.stem}$"):
                take()
        else:
            assert take() == path.stem
        found.append(path)
    assert found == pictures


def test_several_are_read_at_a_time_and_arrays_by_who_asks(pictures: list[Path]) -> None:
    together = threading.Barrier(3, timeout=30)
    first = set(pictures[:3])
    readers: dict[str, threading.Thread] = {}

    def read(path: Path) -> None:
        readers[path.name] = threading.current_thread()
        if path in first:
            together.wait()  # which nobody gets past alone

    for _, take in in_order(pictures, read, 3, size_of):
        take()
    assert readers.pop("07a.npy") is threading.current_thread()
    assert readers.pop("11a.png") is threading.current_thread(), "its header is none of a picture"
    assert threading.current_thread() not in readers.values()


@pytest.mark.parametrize(("pictures_ahead", "most"), [(1, 0), (3, 3), (4, 100)])
def test_no_more_is_held_than_there_is_room_for(
    pictures: list[Path], pictures_ahead: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is being used counts, too."""
    started: list[Path] = []
    own = threading.current_thread()

    def read(path: Path) -> None:
        if threading.current_thread() is not own:
            started.append(path)

    monkeypatch.setattr(reading_ahead, "BYTES_OF_A_THREAD", most * size_of(pictures[0]) // 2)
    done = 0
    for path, take in in_order(pictures, read, 2, size_of):
        deadline = time.monotonic() + 30
        while not done and len(started) < pictures_ahead and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.002)  # for those who are too fast
        assert len(started) - done <= pictures_ahead
        assert done or len(started) == pictures_ahead
        take()
        done += path.name not in ("07a.npy", "11a.png")
    assert len(started) == len(pictures) - 2


def test_closing_ends_it(pictures: list[Path]) -> None:
    started: list[Path] = []

    def read(path: Path) -> None:
        started.append(path)
        time.sleep(0.01)

    with closing(in_order(pictures, read, 2, size_of)) as files:
        _, take = next(files)
        take()
    count = len(started)
    time.sleep(0.05)
    assert len(started) == count < len(pictures)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("dovetail-pictures")]


def test_the_size_of_a_picture_is_told_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (200, 300), np.uint8)).save(path)
    assert decoded_bytes(path, is_resized=True) == 300 * 200 * 8
    assert size_of(path) == 300 * 200 * 24
    path.write_bytes(path.read_bytes()[:1000])
    assert size_of(path) == 300 * 200 * 24
    path.write_bytes(b"")
    assert size_of(path) == size_of(tmp_path) == size_of(tmp_path / "absent.png") == 0


def test_the_result_does_not_depend_on_threads(
    dovetail: Invoke, classifier: Path, pictures: list[Path], tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    for path in pictures:
        if path.suffix == ".png" and path.stem != "11a":
            Image.fromarray(rng.integers(0, 256, (*rng.integers(1, 60, 2), 3), np.uint8)).save(path)
    for threads in (1, 2, 5):
        output = tmp_path / f"{threads}.npz"
        result = dovetail("run", classifier, "-b", "CpuRef", "-i", pictures[0].parent, "-o", output, "--threads", threads)
        assert result.exit_code == 1
        assert "11a.png  failed: is not a picture" in result.stdout
    with np.load(tmp_path / "1.npz") as one:
        for threads in (2, 5):
            with np.load(tmp_path / f"{threads}.npz") as other:
                assert one["files"].tolist() == other["files"].tolist()
                np.testing.assert_array_equal(one["scores"], other["scores"])
