"""Listing: what is told of backends without importing any."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.distributions import SOURCE, Site, failure_of, manifest, row_of

from dovetail.contract.abi_version import ABI_VERSION
from dovetail.discovery.registry import BackendState, Registry
from dovetail.ground.errors import BackendUnavailableError, ErrorCode


def test_row_tells_what_is_known_without_importing(site: Site) -> None:
    package = site.add("CpuFake", version="2.5", manifest=manifest("CpuFake", rank=7))
    row = row_of(Registry(), "CpuFake")
    assert row.state is BackendState.AVAILABLE
    assert (row.distribution, row.version, row.origin) == ("fake-cpufake", "2.5", "fake_cpufake:Backend")
    assert (row.device, row.rank, row.description) == ("cpu", 7, "about CpuFake")
    assert package not in sys.modules


def test_twenty_backends_are_listed_without_importing_any(site: Site) -> None:
    names = [f"Fake{number:02}" for number in range(20)]
    packages = [site.add(name, source="raise SystemExit('imported')", manifest=manifest(name)) for name in reversed(names)]
    registry = Registry()
    rows = [row for row in registry.rows() if row.id in names]
    assert [row.id for row in rows] == names
    assert not {*packages} & {*sys.modules}


def test_manifest_is_optional(site: Site) -> None:
    site.add("CpuPlain")
    row = row_of(Registry(), "CpuPlain")
    assert row.state is BackendState.AVAILABLE
    assert row.manifest is None
    assert (row.device, row.rank, row.description) == (None, 0, "")


def test_package_with_several_backends_has_a_list_of_manifests(site: Site) -> None:
    both = [manifest("FakeOne", description="one"), manifest("FakeTwo", description="two")]
    site.add("FakeOne", package="fake_family", distribution="fake-one", manifest=both)
    site.add("FakeTwo", package="fake_family", distribution="fake-two", manifest=both)
    registry = Registry()
    assert row_of(registry, "FakeOne").description == "one"
    assert row_of(registry, "FakeTwo").description == "two"


def test_manifest_is_found_through_an_import_hook(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editable installation need not put its source folder on sys.path."""
    from importlib.machinery import ModuleSpec
    from importlib.util import spec_from_file_location

    package = site.add("CpuHooked", manifest=manifest("CpuHooked"))
    elsewhere = tmp_path / "elsewhere"
    (site.folder / package).rename(elsewhere)

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
            if name != package:
                return None
            return spec_from_file_location(name, elsewhere / "__init__.py", submodule_search_locations=[str(elsewhere)])

    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    registry = Registry()
    assert row_of(registry, "CpuHooked").description == "about CpuHooked"
    assert registry.get("CpuHooked").id == "CpuHooked"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("[" * 10_000, "cannot be read"),
        ('{"id": "Fake", "id": "Fake"}', "twice"),
        ("7", "an object, not int"),
        ("[]", "describes nothing"),
        (json.dumps({"id": "Fake"}), "lacks 'device'"),
        (json.dumps(manifest("Fake", abi=[0, 1, 2])), "[major, minor]"),
        (json.dumps(manifest("Fake", abi=["0", "1"])), "[major, minor]"),
        (json.dumps(manifest("Fake", abi=[0, True])), "[major, minor]"),
        (json.dumps(manifest("Fake", rank=True)), "'rank' in the manifest must be of type int"),
        (json.dumps(manifest("Fake", rank="fast")), "'rank' in the manifest must be of type int"),
        (json.dumps(manifest("Other")), "describes 'Other', not 'Fake'"),
        (json.dumps(manifest("Fake", description="x" * 70_000)), "larger than 65536 bytes"),
    ],
)
def test_malformed_manifest_is_a_row_with_a_reason(site: Site, text: str, found: str) -> None:
    package = site.add("Fake", manifest=text)
    registry = Registry()
    row = row_of(registry, "Fake")
    assert row.state is BackendState.BROKEN
    assert found in row.reason
    error = failure_of(registry, "Fake")
    assert found in error.message
    assert error.code == ErrorCode.BACKEND_BROKEN
    assert package not in sys.modules


@pytest.mark.parametrize(
    ("abi", "fits"),
    [
        (ABI_VERSION, True),
        ((ABI_VERSION[0], ABI_VERSION[1] - 1), True),
        ((ABI_VERSION[0], ABI_VERSION[1] + 1), False),
        ((ABI_VERSION[0] + 1, 0), False),
    ],
)
def test_abi_is_compared_before_any_code_of_the_backend_runs(site: Site, abi: tuple[int, int], fits: bool) -> None:
    package = site.add("Fake", manifest=manifest("Fake", abi=list(abi)))
    registry = Registry()
    if fits:
        assert registry.get("Fake").id == "Fake"
        return
    row = row_of(registry, "Fake")
    assert row.state is BackendState.VERSION_MISMATCH
    error = failure_of(registry, "Fake")
    assert isinstance(error, BackendUnavailableError)
    assert error.code == ErrorCode.ABI_MISMATCH
    assert error.details["state"] == "version_mismatch"
    for text in (row.reason, error.message):
        assert f"{abi[0]}.{abi[1]}" in text
        assert f"{ABI_VERSION[0]}.{ABI_VERSION[1]}" in text
    assert package not in sys.modules


def test_abi_version_is_that_of_the_header() -> None:
    header = (SOURCE / "dovetail" / "include" / "abi.h").read_text(encoding="utf-8")
    numbers = [re.search(rf"#define DOVETAIL_ABI_{part} (\d+)", header) for part in ("MAJOR", "MINOR")]
    assert tuple(int(number[1]) for number in numbers if number) == ABI_VERSION


@pytest.mark.parametrize("id", ["1st", "Cpu Fake", "Cpu-Fake", "\u0421puFake", "x" * 65])
def test_invalid_id_is_a_row(site: Site, id: str) -> None:
    site.add(id, package="fake_invalid")
    row = row_of(Registry(), id)
    assert row.state is BackendState.INVALID_ID
    assert "not a backend id" in row.reason


@pytest.mark.parametrize("value", ["no reference!", "fake_missing.deep:Backend"])
def test_value_that_points_nowhere_is_no_exception(site: Site, value: str) -> None:
    site.add("Fake", value=value)
    registry = Registry()
    row_of(registry, "Fake")
    error = failure_of(registry, "Fake")
    assert error.code == ErrorCode.BACKEND_BROKEN
    assert value in str(error)
    assert row_of(registry, "Fake").state is BackendState.BROKEN


def test_metadata_that_is_missing_is_a_row_and_hides_no_other(site: Site) -> None:
    site.add("Fake")
    site.add("FakeOther")
    (site.folder / "fake_fake-1.0.dist-info" / "METADATA").unlink()
    registry = Registry()
    (broken,) = [row for row in registry.rows() if row.id == ""]
    assert broken.state is BackendState.BROKEN
    assert str(site.folder) in str(broken.distribution)
    assert registry.get("FakeOther").id == "FakeOther"


def test_entry_points_that_are_no_text_are_logged_and_hide_no_other(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.add("Fake")
    site.add("FakeOther")
    (site.folder / "fake_fake-1.0.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe[dovetail.backends]")
    registry = Registry()
    assert registry.get("FakeOther").id == "FakeOther"
    assert "fake-fake" in caplog.text


def test_entry_points_that_are_no_table_are_a_row_and_hide_no_other(site: Site) -> None:
    site.add("Fake")
    site.add("FakeOther")
    (site.folder / "fake_fake-1.0.dist-info" / "entry_points.txt").write_text("[dovetail.backends]\nno equals sign\n")
    registry = Registry()
    assert [row.distribution for row in registry.rows() if row.state is BackendState.BROKEN] == ["fake-fake"]
    assert registry.get("FakeOther").id == "FakeOther"


def test_row_can_be_pickled(site: Site) -> None:
    site.add("Fake", manifest=manifest("Fake"))
    row = row_of(Registry(), "Fake")
    assert pickle.loads(pickle.dumps(row)) == row


def test_public_listing_in_a_fresh_process(site: Site) -> None:
    package = site.add("CpuFake", manifest=manifest("CpuFake"))
    program = (
        "import sys, dovetail\n"
        "rows = [row for row in dovetail.backends() if row.id == 'CpuFake']\n"
        f"print(rows[0].state, {package!r} in sys.modules, 'numpy' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": f"{SOURCE}:{site.folder}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (["available", "False", "False"], "")
