"""What is installed is looked through once, and again when it may have changed."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import importlib_metadata
import pytest

from dovetail.discovery import entry_points
from dovetail.discovery.entry_points import forget, offers, version_of
from dovetail.discovery.registry import Registry

GROUP = "dovetail.backends"

Install = Callable[..., Path]


@pytest.fixture(autouse=True)
def look_again() -> Iterator[None]:
    yield
    forget()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Add a distribution to a folder, which joins sys.path with the first one."""

    def add(id: str, folder: str = "site", version: str = "1.0") -> Path:
        site = tmp_path / folder
        if not site.is_dir():
            site.mkdir()
            monkeypatch.syspath_prepend(str(site))
        info = site / f"fake_{id.lower()}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fake-{id}\nVersion: {version}\n")
        text = info / "entry_points.txt"
        text.write_text(f"[{GROUP}]\n{id} = fake_{id.lower()}:Backend\n")
        return text

    return add


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Count how often everything is looked through."""
    seen: list[None] = []
    everything = entry_points.folders_of_metadata

    def counted() -> object:
        seen.append(None)
        return everything()

    monkeypatch.setattr(entry_points, "folders_of_metadata", counted)
    return seen


def names() -> set[str]:
    return {offer.name for offer in offers(GROUP)}


def test_everything_is_looked_through_once_for_all_groups(
    install: Install, monkeypatch: pytest.MonkeyPatch, scans: list[None]
) -> None:
    site = install("One").parents[1]
    monkeypatch.setattr(sys, "path", [str(site)])  # others may change meanwhile
    os.utime(site, (1e9, 1e9))
    assert "One" in names()
    assert "One" in names()
    assert {offer.name for offer in offers("dovetail.parsers")}.isdisjoint({"One"})
    assert len(scans) == 1


def test_a_folder_that_changed_just_now_may_change_again(install: Install, scans: list[None]) -> None:
    os.utime(install("One").parents[1])
    assert names() >= names()
    assert len(scans) == 2


def test_only_what_changed_is_looked_into_again(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script's own folder, where it writes, may change all the time."""
    settled, busy = install("One").parents[1], install("Two", folder="busy").parents[1]
    monkeypatch.setattr(sys, "path", [str(settled), str(busy)])
    os.utime(settled, (1e9, 1e9))
    seen: list[str] = []
    listdir = os.listdir

    def listed(folder: str) -> list[str]:
        seen.append(folder)
        return listdir(folder)

    monkeypatch.setattr(os, "listdir", listed)
    assert names() == {"One", "Two"}
    assert names() == {"One", "Two"}
    assert seen == [str(settled), str(busy), str(busy)]
    install("Three")
    os.utime(settled, (1.1e9, 1.1e9))
    assert names() == {"One", "Two", "Three"}
    forget()
    seen.clear()
    assert names() == {"One", "Two", "Three"}
    assert seen == [str(settled), str(busy)]


def test_what_comes_and_goes_is_seen(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("One")
    assert names() >= {"One"}
    install("Two")
    assert names() >= {"One", "Two"}
    other = install("Three", folder="other")
    assert names() >= {"One", "Two", "Three"}
    monkeypatch.undo()  # both folders leave sys.path
    assert names().isdisjoint({"One", "Two", "Three"})
    assert other.is_file()


def test_a_list_that_changes_in_place_is_read_by_a_refresh(install: Install) -> None:
    text = install("One")
    os.utime(text.parents[1], (1e9, 1e9))
    registry = Registry()
    assert "One" in {row.id for row in registry.rows()}
    text.write_text(f"[{GROUP}]\nOther = fake_one:Backend\n")
    registry.refresh()
    assert {"One", "Other"} & {row.id for row in registry.rows()} == {"Other"}


def test_a_caller_cannot_change_what_is_remembered(install: Install) -> None:
    install("One")
    offers(GROUP).clear()
    assert "One" in names()


def test_a_working_folder_that_is_gone_does_no_harm(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("One")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    monkeypatch.syspath_prepend("")
    assert "One" in names()
    gone.rmdir()
    with pytest.raises(OSError, match="No such file"):
        os.getcwd()
    assert entry_points._place()


def test_what_is_no_path_is_passed_over(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("One")
    monkeypatch.setattr(sys, "path", [*sys.path, object()])
    assert "One" in names()


def test_the_version_of_a_distribution(install: Install) -> None:
    text = install("One", version="3.2.1")
    assert version_of("fake-one") == "3.2.1"
    assert version_of("not-installed-anywhere") is None
    (text.parent / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-one\n")
    assert version_of("fake-one") is None


def test_what_lies_in_folders_is_read_without_importlib_metadata(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    site = install("One").parents[1]
    monkeypatch.setattr(sys, "path", [str(site)])
    monkeypatch.setattr(sys, "meta_path", [finder for finder in sys.meta_path if finder is importlib.machinery.PathFinder])
    monkeypatch.setitem(sys.modules, "importlib_metadata", None)  # importing it fails
    assert names() == {"One"}


@pytest.mark.parametrize("name", ["archive.zip", "fake_two-1.0-py3.11.egg"])
def test_archives_and_eggs_are_looked_into(
    install: Install, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("One")
    folder = "EGG-INFO" if name.endswith(".egg") else "fake_two-1.0.dist-info"
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        archive.writestr(f"{folder}/METADATA", "Metadata-Version: 2.1\nName: fake-two\nVersion: 1.0\n")
        archive.writestr(f"{folder}/PKG-INFO", "Metadata-Version: 2.1\nName: fake-two\nVersion: 1.0\n")
        archive.writestr(f"{folder}/entry_points.txt", f"[{GROUP}]\nTwo = fake_two:Backend\n")
    monkeypatch.syspath_prepend(str(tmp_path / name))
    assert names() >= {"One", "Two"}


def test_import_hooks_that_list_distributions_are_asked(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("One")

    files = {"METADATA": "Name: fake-two\nVersion: 2.0\n", "entry_points.txt": f"[{GROUP}]\nTwo = fake_two:Backend\n"}

    class Listed(importlib_metadata.Distribution):
        def read_text(self, filename: str) -> str | None:
            return files.get(filename)

        def locate_file(self, path: object) -> Path:
            return Path(str(path))

    class Hook:
        @staticmethod
        def find_spec(*_: object) -> None: ...

        @staticmethod
        def find_distributions(_: object) -> Iterator[Listed]:
            yield Listed()

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Hook])
    assert names() >= {"One", "Two"}
    assert version_of("fake.two") == "2.0"


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("package", ("package", "")),
        (" package.deep : object.attribute [extra]", ("package.deep", "object.attribute")),
    ],
)
def test_references_to_objects(value: str, parts: tuple[str, str]) -> None:
    assert entry_points.reference(value) == parts


@pytest.mark.parametrize("value", ["", "no reference!", "package:", ".package", "package:a b"])
def test_what_is_no_reference_to_an_object(value: str) -> None:
    with pytest.raises(ValueError, match="no reference to an object"):
        entry_points.reference(value)


def test_the_first_distribution_of_a_name_counts(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("One")
    newer = install("One", folder="other", version="2.0")
    newer.write_text(f"[{GROUP}]\nNewer = fake_one:Backend\n")
    assert "other" in sys.path[0]
    assert names().isdisjoint({"One"})
    assert names() >= {"Newer"}
    assert version_of("Fake_One") == "2.0"


@pytest.mark.parametrize("text", ["[a.group]\nno equals sign\n", f"[{GROUP}]\nname\n"])
def test_a_list_with_a_broken_line_is_a_problem(install: Install, text: str) -> None:
    broken = install("One")
    broken.write_text(f"{text}[{GROUP}]\nOne = fake_one:Backend\n")
    (offer,) = [offer for offer in offers(GROUP) if offer.distribution == "fake-one"]
    assert "no entry point" in offer.problem
    assert offer.value == ""
