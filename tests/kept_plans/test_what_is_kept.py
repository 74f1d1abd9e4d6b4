"""Which loads keep a plan, and which plans are not used."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import dovetail
from dovetail import ErrorCode, Limits, OptionError
from dovetail.loading import snapshots
from dovetail.runtime import plan_snapshot
from kept_plans.networks import BACKENDS, FILTER, OTHER, RANDOM, convolutional, expected, run, written


def test_a_file_that_changed_is_another_network(model: Path, keeping: Path) -> None:
    before = model.stat()
    with dovetail.load(model) as net:
        run(net)
    content = convolutional(OTHER).SerializeToString()
    assert len(content) == before.st_size
    model.write_bytes(content)
    os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))  # only the time of the inode tells
    with dovetail.load(model) as net:
        np.testing.assert_allclose(run(net), expected(OTHER), rtol=1e-4, atol=1e-6)
    assert len(list(keeping.iterdir())) == 2


def test_external_data_that_changed_is_another_network(tmp_path: Path, parsed: list[str]) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(convolutional(), model, save_as_external_data=True, location="weights.bin", size_threshold=64)
    for count in (1, 1):
        with dovetail.load(model) as net:
            np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
        assert len(parsed) == count
    data = tmp_path / "weights.bin"
    content = bytearray(data.read_bytes())
    content[3] ^= 0x80  # the sign of the first weight
    data.write_bytes(content)
    with dovetail.load(model) as net:
        assert not np.array_equal(run(net), expected())
    assert len(parsed) == 2


@pytest.mark.parametrize("backends", BACKENDS, ids=",".join)
def test_damaged_plans_are_not_used(model: Path, keeping: Path, parsed: list[str], backends: list[str]) -> None:
    with dovetail.load(model, backends) as net:
        wanted = run(net)
    (plan,) = keeping.iterdir()
    whole = plan.read_bytes()
    damages: list[Callable[[bytearray], Any]] = [bytearray.clear]
    damages += [lambda content, n=n: content.__delitem__(slice(n, None)) for n in (1, 15, 64, len(whole) // 2, len(whole) - 64)]
    damages += [lambda content, n=n: content.__setitem__(slice(n, n + 512), bytes(512)) for n in (0, 64, len(whole) // 2)]
    damages += [lambda content: content.extend(bytes(64))]
    for place in RANDOM.integers(0, len(whole), 60):
        damages.append(lambda content, place=int(place): content.__setitem__(place, content[place] ^ 0x55))
    for number, damage in enumerate(damages):
        content = bytearray(whole)
        damage(content)
        plan.write_bytes(content)
        parsed.clear()
        with dovetail.load(model, backends) as net:
            np.testing.assert_array_equal(run(net), wanted)
        if bytes(content[:56]) != whole[:56] or content[64:] != whole[64:]:  # the head ends with bytes that mean nothing
            assert len(parsed) == 1, number
            assert plan.read_bytes() == whole


def test_ways_of_loading_have_plans_of_their_own(model: Path, keeping: Path, parsed: list[str]) -> None:
    ways: list[dict[str, Any]] = [
        {"backends": ["CpuRef"]},
        {"backends": ["CpuAcc", "CpuRef"]},
        {"backends": "CpuAcc", "threads": 1},
        {"backends": "CpuAcc", "threads": 1, "options": {"CpuAcc": {"isa": "scalar"}}},
        {"backends": ["CpuAcc", "CpuRef"], "fallback": False, "threads": 1},
    ]
    for _ in range(2):
        for way in ways:
            with dovetail.load(model, **way) as net:
                np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert len(parsed) == len(list(keeping.iterdir())) == len(ways)


def test_other_requests_are_not_kept(model: Path, keeping: Path) -> None:
    class Mine(dovetail.PlacementPolicy):
        def choose(self, layer: Any, answers: Any) -> Any:
            return next(iter(answers))

    ways: list[dict[str, Any]] = [
        {"require": {"conv": "CpuRef"}},
        {"forbid": {"conv": "CpuAcc"}},
        {"limits": Limits()},
        {"passes": False},
        {"debug": lambda *_: None},
        {"tuned": False},
        {"runtime": dovetail.Runtime(guard=dovetail.Guard())},
    ]
    for way in ways:
        with dovetail.load(model, ["CpuAcc", "CpuRef"], **way) as net:
            np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
        assert not keeping.exists(), way


def test_nothing_is_kept_where_nobody_wants_it(model: Path, keeping: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOVETAIL_PLANS", "off")
    with dovetail.load(model):
        pass
    assert not keeping.exists()


def test_a_file_that_may_still_change_is_not_kept(model: Path, keeping: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_SETTLED_NS", 3600 * 10**9)
    with dovetail.load(model):
        pass
    assert not keeping.exists()


def test_plans_that_others_could_write_are_not_believed(model: Path, keeping: Path, parsed: list[str]) -> None:
    with dovetail.load(model):
        pass
    (plan,) = keeping.iterdir()
    plan.chmod(0o666)
    with dovetail.load(model) as net:
        run(net)
    assert len(parsed) == 2
    keeping.chmod(0o777)
    with dovetail.load(model) as net:
        run(net)
    assert len(parsed) == 3


def test_a_folder_that_cannot_be_written_costs_a_load_nothing(model: Path, keeping: Path) -> None:
    keeping.parent.mkdir()
    keeping.write_text("no folder")
    with dovetail.load(model) as net:
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)


def test_the_oldest_plans_go(tmp_path: Path, keeping: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = [written(tmp_path / f"{number}.onnx", convolutional()) for number in range(4)]
    with dovetail.load(models[0]):
        pass
    (first,) = keeping.iterdir()
    monkeypatch.setattr(snapshots, "_ALL", 2 * first.stat().st_size + 100)
    for number, model in enumerate(models[1:], 1):
        for plan in keeping.iterdir():
            os.utime(plan, ns=(0, plan.stat().st_mtime_ns - 10**9))
        with dovetail.load(model):
            pass
        assert len(list(keeping.iterdir())) == min(number + 1, 2)
    assert not first.exists()


def test_threads_count_as_the_runtime_has_them(model: Path, keeping: Path, parsed: list[str]) -> None:
    with dovetail.Runtime(threads=1) as one, dovetail.Runtime(threads=2) as two:
        for runtime, threads, count in ((one, 2, 1), (two, 2, 2), (two, None, 2), (two, 7, 2), (one, None, 2)):
            with dovetail.load(model, runtime=runtime, threads=threads) as net:
                np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
            assert len(parsed) == count
    assert len(list(keeping.iterdir())) == 2


def test_a_folder_above_a_link_is_that_of_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "inner")
    written(tmp_path / "model.onnx", convolutional())
    written(tmp_path / "real" / "model.onnx", convolutional(OTHER))
    for path, filters in ((tmp_path, FILTER), (tmp_path / "link" / "..", OTHER)):
        for _ in range(2):
            with dovetail.load(os.path.join(path, "model.onnx")) as net:
                np.testing.assert_allclose(run(net), expected(filters), rtol=1e-4, atol=1e-6)
                net.placement.explain()


def test_external_data_that_may_still_change_is_not_kept(
    tmp_path: Path, keeping: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(convolutional(), model, save_as_external_data=True, location="weights.bin", size_threshold=64)
    time.sleep(0.6)
    (tmp_path / "weights.bin").touch()
    monkeypatch.setattr(snapshots, "_SETTLED_NS", 500_000_000)
    with dovetail.load(model):
        pass
    assert not keeping.exists()
    time.sleep(0.6)
    with dovetail.load(model):
        pass
    assert len(list(keeping.iterdir())) == 1


@pytest.mark.parametrize("error", [TypeError("cannot pickle"), OSError("no memory to map"), MemoryError(), KeyError(1)])
def test_a_plan_that_cannot_be_written_costs_a_load_nothing(
    model: Path, keeping: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(snapshots, "written", fails)
    with dovetail.load(model) as net:
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert not keeping.exists()


def test_a_workload_that_asks_for_other_memory_than_was_planned_is_not_used(
    model: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with dovetail.load(model, "CpuRef"):
        pass
    needs = plan_snapshot._needs
    monkeypatch.setattr(plan_snapshot, "_needs", lambda *what: (*needs(*what), "more"))
    with dovetail.load(model, "CpuRef") as net:
        np.testing.assert_allclose(run(net), expected(), rtol=1e-4, atol=1e-6)
    assert len(parsed) == 2


@pytest.mark.parametrize("backends", [5, True, object()])
def test_what_names_no_backend_is_refused_as_ever(model: Path, backends: Any) -> None:
    with pytest.raises(OptionError) as raised:
        dovetail.load(model, backends)
    assert raised.value.code == ErrorCode.OPTION_INVALID


def test_an_option_without_an_end_is_refused_as_ever(model: Path) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(OptionError) as raised:
        dovetail.load(model, "CpuAcc", options={"CpuAcc": {"isa": endless}})
    assert raised.value.code == ErrorCode.OPTION_INVALID


def test_what_was_installed_after_it_was_imported_keeps_no_plan(
    model: Path, keeping: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = max(path.stat().st_ctime_ns for path in Path(dovetail.__file__).parent.rglob("*.py"))
    monkeypatch.setattr(dovetail, "IMPORTED_NS", newest)
    snapshots._installed.cache_clear()
    with dovetail.load(model, "CpuRef"):
        pass
    assert not keeping.exists()
    monkeypatch.undo()
    snapshots._installed.cache_clear()
