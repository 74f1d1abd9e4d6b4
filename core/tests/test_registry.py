"""What the registry decides: duplicates, backends of the process, and the default."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest
from fakes.backends import Willing
from fakes.distributions import Site, failure_of, manifest, row_of

from dovetail.contract.abi_version import ABI_VERSION
from dovetail.discovery.registry import BackendState, Registry
from dovetail.ground.errors import BackendError, BackendUnavailableError, ErrorCode


class InProcess(Willing):
    """Its id is what a test says, also where that is none."""

    @property
    def id(self) -> Any:
        return self.name


# -- duplicates ------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", ["CpuFake", "CPUFAKE"])
def test_duplicate_names_both_origins_and_chooses_neither(site: Site, second: str) -> None:
    packages = [
        site.add("CpuFake", package="fake_a", version="1.1"),
        site.add(second, package="fake_b", version="2.2"),
    ]
    registry = Registry()
    rows = [row for row in registry.rows() if row.id in ("CpuFake", second)]
    assert [row.state for row in rows] == [BackendState.DUPLICATE] * 2
    error = failure_of(registry, "CpuFake")
    assert error.code == ErrorCode.BACKEND_DUPLICATE
    for text in ("fake-a 1.1, fake_a:Backend", "fake-b 2.2, fake_b:Backend"):
        assert text in error.message
        assert all(text in row.reason for row in rows)
    assert not {*packages} & {*sys.modules}


def test_two_entries_of_one_distribution_are_a_duplicate(site: Site) -> None:
    site.add("CpuFake", package="fake_a")
    path = site.folder / "fake_a-1.0.dist-info" / "entry_points.txt"
    path.write_text(path.read_text() + "CpuFake = fake_a:Other\n")
    assert failure_of(Registry(), "CpuFake").code == ErrorCode.BACKEND_DUPLICATE


def test_same_distribution_found_twice_is_no_duplicate(make_site: Callable[[str], Site]) -> None:
    """Of an editable installation and a wheel the first on sys.path counts, as for imports."""
    make_site("behind").add("CpuFake", distribution="Fake.Twice", package="fake_twice", version="1.0")
    make_site("before").add("CpuFake", distribution="fake-twice", package="fake_twice", version="2.0")
    registry = Registry()
    assert row_of(registry, "CpuFake").version == "2.0"
    assert registry.get("CpuFake").id == "CpuFake"


def test_folder_that_stands_twice_on_the_path_is_no_duplicate(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.add("CpuFake")
    alias = site.folder.parent / "alias"
    alias.symlink_to(site.folder)
    monkeypatch.syspath_prepend(str(alias))
    assert row_of(Registry(), "CpuFake").state is BackendState.AVAILABLE


# -- in process ------------------------------------------------------------------------------------


def test_backend_registered_in_process() -> None:
    registry, backend = Registry(), InProcess("TestOnly")
    registry.register(backend)
    assert registry.get("TestOnly") is backend
    row = row_of(registry, "TestOnly")
    assert (row.state, row.distribution, row.origin) == (BackendState.LOADED, None, "registered in process")
    registry.unregister("TestOnly")
    assert failure_of(registry, "TestOnly").code == ErrorCode.BACKEND_UNAVAILABLE
    with pytest.raises(BackendUnavailableError, match="not registered"):
        registry.unregister("TestOnly")


def test_register_refuses_what_is_taken_or_no_backend(site: Site) -> None:
    site.add("CpuFake")
    registry = Registry()
    registry.register(InProcess("TestOnly"))
    for id in ("TestOnly", "testonly", "CpuFake"):
        with pytest.raises(BackendError, match=r"registered in process") as caught:
            registry.register(InProcess(id))
        assert caught.value.code == ErrorCode.BACKEND_DUPLICATE
    with pytest.raises(BackendError, match="not an IBackend"):
        registry.register(object())  # type: ignore[arg-type]  # the mistake that is tested
    with pytest.raises(BackendError, match="not a backend id"):
        registry.register(InProcess("no id"))
    with pytest.raises(BackendError, match="lacks 'device'"):
        registry.register(InProcess("TestTwo"), manifest={"id": "TestTwo"})


def test_refresh_finds_what_was_installed_meanwhile_and_keeps_what_is_loaded(site: Site) -> None:
    site.add("FakeFirst")
    registry = Registry()
    first = registry.get("FakeFirst")
    registry.register(InProcess("TestOnly"))
    site.add("FakeLater")
    site.add("TestOnly", package="fake_clash")
    registry.refresh()
    assert registry.get("FakeLater").id == "FakeLater"
    assert registry.get("FakeFirst") is first
    assert failure_of(registry, "TestOnly").code == ErrorCode.BACKEND_DUPLICATE


# -- the default -----------------------------------------------------------------------------------


@pytest.fixture
def only_site(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Hide the backends that are installed where the tests run."""
    from dovetail.discovery import entry_points
    from dovetail.discovery.distributions import folders_of_metadata

    def here() -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "path", [str(site.folder)])
            yield from folders_of_metadata()

    monkeypatch.setattr(entry_points, "folders_of_metadata", here)
    return site


def test_default_is_the_cpu_backends_fastest_first(only_site: Site, caplog: pytest.LogCaptureFixture) -> None:
    only_site.add("CpuOracle", manifest=manifest("CpuOracle", rank=0, description="reference oracle, slow"))
    only_site.add("CpuFastB", manifest=manifest("CpuFastB", rank=10))
    only_site.add("CpuFastA", manifest=manifest("CpuFastA", rank=10))
    only_site.add("Gpu", manifest=manifest("Gpu", rank=99, device="gpu"))
    only_site.add("Unknown")
    only_site.add("CpuOld", manifest=manifest("CpuOld", rank=99, abi=[ABI_VERSION[0] + 1, 0]))
    registry = Registry()
    with caplog.at_level(logging.INFO, "dovetail"):
        for _ in range(2):  # the second time says nothing new
            assert registry.default_preferences() == ("CpuFastA", "CpuFastB", "CpuOracle")
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("dovetail", logging.INFO)
    assert "CpuFastA, CpuFastB, CpuOracle" in record.getMessage()
    assert "slow" not in record.getMessage()


def test_default_on_the_oracle_alone_says_that_it_is_slow(only_site: Site, caplog: pytest.LogCaptureFixture) -> None:
    only_site.add("CpuOracle", manifest=manifest("CpuOracle", rank=0, description="reference oracle, slow"))
    with caplog.at_level(logging.INFO, "dovetail"):
        assert Registry().default_preferences() == ("CpuOracle",)
    assert "CpuOracle (reference oracle, slow)" in caplog.text


def test_default_without_any_cpu_backend_is_an_error(only_site: Site) -> None:
    only_site.add("Gpu", manifest=manifest("Gpu", device="gpu"))
    with pytest.raises(BackendUnavailableError, match="no backend for the CPU") as caught:
        Registry().default_preferences()
    assert caught.value.details["ready"] == ["Gpu"]


def test_broken_backend_leaves_the_default(only_site: Site) -> None:
    only_site.add("CpuA", manifest=manifest("CpuA"), source="raise OSError")
    only_site.add("CpuB", manifest=manifest("CpuB"))
    registry = Registry()
    assert registry.default_preferences() == ("CpuA", "CpuB")
    failure_of(registry, "CpuA")
    assert registry.default_preferences() == ("CpuB",)


# -- the public function ---------------------------------------------------------------------------


def test_default_that_is_broken_is_left_out_and_told(only_site: Site, caplog: pytest.LogCaptureFixture) -> None:
    from dovetail.optimizer.candidates import resolve

    only_site.add("CpuA", manifest=manifest("CpuA", rank=9), source="raise OSError('upset')")
    only_site.add("CpuB", manifest=manifest("CpuB"))
    registry = Registry()
    ready, absent = resolve(None, None, registry)
    assert [one.label for one in ready] == ["CpuB"]
    assert [(str(one.request.id), one.state) for one in absent] == [("CpuA", "broken")]
    assert "CpuA is left out: backend CpuA" in caplog.text
    with pytest.raises(BackendError, match="upset"):  # who names it wants to know
        resolve(["CpuA?", "CpuB"], None, Registry())


def test_oracles_are_those_that_are_ready_and_say_so_best_first(only_site: Site) -> None:
    only_site.add("CpuFast", manifest=manifest("CpuFast", rank=9))
    only_site.add("CpuPlain", manifest=manifest("CpuPlain", rank=0, oracle=True))
    only_site.add("CpuTrue", manifest=manifest("CpuTrue", rank=2, oracle=True))
    only_site.add("CpuNot", manifest=manifest("CpuNot", rank=3, oracle=False))
    only_site.add("CpuBare")
    only_site.add("CpuOld", manifest=manifest("CpuOld", rank=7, oracle=True, abi=[99, 0]))
    registry = Registry()
    assert [row.id for row in registry.oracles()] == ["CpuTrue", "CpuPlain"]
    assert not any(row.state is BackendState.LOADED for row in registry.rows())


def test_an_oracle_is_one_or_is_none(only_site: Site) -> None:
    only_site.add("CpuPlain", manifest=manifest("CpuPlain", oracle="yes"))
    registry = Registry()
    assert registry.oracles() == ()
    assert "'oracle' in the manifest must be of type bool" in row_of(registry, "CpuPlain").reason
