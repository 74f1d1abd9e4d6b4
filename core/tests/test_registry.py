from __future__ import annotations

import json
import logging
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail.contract.abi_version import ABI_VERSION
from dovetail.contract.interfaces import IBackend, Support
from dovetail.discovery.registry import BackendRow, BackendState, Registry
from dovetail.ground.errors import BackendError, BackendUnavailableError, DovetailError, ErrorCode

SOURCE = Path(__file__).parents[1] / "src"

GOOD = """
from dovetail import BackendId, IBackend, Support

class Backend(IBackend):
    id = BackendId({id!r})

    def supports(self, layer, options, device):
        return Support.yes()

    def create_workload_factory(self, context, resources, options):
        raise NotImplementedError
"""


class InProcess(IBackend):
    def __init__(self, id: str) -> None:
        self._id = id

    @property
    def id(self) -> Any:
        return self._id

    def supports(self, layer: Any, options: Any, device: Any) -> Support:
        return Support.yes()

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> Any:
        raise NotImplementedError


def manifest(id: str, **changes: Any) -> dict[str, Any]:
    return {"id": id, "abi": list(ABI_VERSION), "device": "cpu", "rank": 1, "description": f"about {id}", **changes}


class Site:
    """A folder on sys.path that distributions are put into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages: set[str] = set()

    def add(
        self,
        id: str,
        *,
        distribution: str | None = None,
        version: str = "1.0",
        package: str | None = None,
        source: str = GOOD,
        value: str | None = None,
        manifest: Any = None,
        group: str = "dovetail.backends",
    ) -> str:
        package = package or f"fake_{re.sub('[^a-z0-9]', '_', id.lower())}"
        distribution = distribution or package.replace("_", "-")
        self.packages.add(package)
        (self.folder / package).mkdir(exist_ok=True)
        (self.folder / package / "__init__.py").write_text(textwrap.dedent(source).replace("{id!r}", repr(id)))
        if manifest is not None:
            text = manifest if isinstance(manifest, str) else json.dumps(manifest)
            (self.folder / package / "dovetail-backend.json").write_text(text)
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{id} = {value or f'{package}:Backend'}\n")
        return package


@pytest.fixture
def make_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Site]]:
    sites: list[Site] = []

    def make(name: str = "site") -> Site:
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.syspath_prepend(str(folder))
        sites.append(Site(folder))
        return sites[-1]

    yield make
    for package in {package for site in sites for package in site.packages}:
        for module in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
            del sys.modules[module]


@pytest.fixture
def site(make_site: Callable[[], Site]) -> Site:
    return make_site()


def row_of(registry: Registry, id: str) -> BackendRow:
    (row,) = [row for row in registry.rows() if row.id == id]
    return row


def failure_of(registry: Registry, id: str) -> BackendError:
    with pytest.raises(BackendError) as caught:
        registry.get(id)
    return caught.value


# -- listing ---------------------------------------------------------------------------------------


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


# -- loading ---------------------------------------------------------------------------------------


def test_backend_is_imported_when_asked_for_and_once(site: Site) -> None:
    package = site.add("Fake")
    registry = Registry()
    backend = registry.get("Fake")
    assert backend.id == "Fake"
    assert registry.get("Fake") is backend
    assert row_of(registry, "Fake").state is BackendState.LOADED
    assert package in sys.modules


def test_threads_that_ask_at_once_get_the_same_backend(site: Site) -> None:
    counting = GOOD + "\n    created = 0\n\n    def __init__(self):\n        import time\n        time.sleep(0.05)\n"
    site.add("Fake", source=counting + "        type(self).created += 1\n")
    registry = Registry()
    barrier = threading.Barrier(8)
    got: list[Any] = []

    def ask() -> None:
        barrier.wait()
        got.append(registry.get("Fake"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert len({id(backend) for backend in got}) == 1
    assert got[0].created == 1


def test_listing_does_not_wait_for_a_backend_that_is_being_imported(site: Site) -> None:
    source = "import fake_gate\nfake_gate.entered.set()\nassert fake_gate.proceed.wait(30)\n" + GOOD
    site.add("Fake", source=source)
    (site.folder / "fake_gate.py").write_text("import threading\nentered = threading.Event()\nproceed = threading.Event()\n")
    import fake_gate  # type: ignore[import-not-found]  # the module written above

    site.packages.add("fake_gate")
    registry = Registry()
    thread = threading.Thread(target=registry.get, args=("Fake",))
    registry.rows()
    thread.start()
    try:
        assert fake_gate.entered.wait(30)
        assert row_of(registry, "Fake").state is BackendState.AVAILABLE
    finally:
        fake_gate.proceed.set()
        thread.join()
    assert row_of(registry, "Fake").state is BackendState.LOADED


@pytest.mark.parametrize(
    ("statement", "cause", "text"),
    [
        ("raise ImportError('libacme.so.3 is missing')", ImportError, "libacme.so.3 is missing"),
        ("raise SystemExit(3)", SystemExit, "SystemExit: 3"),
        ("assert False", AssertionError, "AssertionError"),
        ("class Odd(BaseException): pass\nraise Odd('odd')", BaseException, "Odd: odd"),
        ("def deeper(): deeper()\ndeeper()", RecursionError, "RecursionError"),
        ("class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute", Exception, "cannot be printed"),
        ("syntax error", SyntaxError, "SyntaxError"),
        ("", AttributeError, "Backend"),
    ],
)
def test_import_that_fails_is_a_row_and_an_error_with_its_cause(
    site: Site, statement: str, cause: type[BaseException], text: str
) -> None:
    site.add("Fake", source=statement, version="3.2")
    site.add("FakeOther")
    registry = Registry()
    error = failure_of(registry, "Fake")
    assert error.code == ErrorCode.BACKEND_BROKEN
    assert isinstance(error.__cause__, cause)
    assert text in error.message
    assert "fake-fake 3.2, fake_fake:Backend" in error.message
    assert error.hint
    assert error.details["phase"] == "import"
    row = row_of(registry, "Fake")
    assert row.state is BackendState.BROKEN
    assert text in row.reason
    assert registry.get("FakeOther").id == "FakeOther"


def test_second_request_for_a_broken_backend_says_the_same(site: Site) -> None:
    site.add("Fake", source="import fake_counter\nfake_counter.imports += 1\nraise OSError('no')")
    (site.folder / "fake_counter.py").write_text("imports = 0\n")
    site.packages.add("fake_counter")
    registry = Registry()
    first, second = failure_of(registry, "Fake"), failure_of(registry, "Fake")
    assert first.message == second.message
    assert first.__cause__ is second.__cause__
    assert first is not second
    assert sys.modules["fake_counter"].imports == 1


def test_ctrl_c_during_an_import_is_not_swallowed(site: Site) -> None:
    site.add("Fake", source="import signal\nsignal.raise_signal(signal.SIGINT)\n" + GOOD)
    registry = Registry()
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        registry.get("Fake")
    assert row_of(registry, "Fake").state is BackendState.AVAILABLE
    assert signal.getsignal(signal.SIGINT) is handler


def test_interrupt_that_the_backend_raises_itself_is_a_row(site: Site) -> None:
    site.add("Fake", source="raise KeyboardInterrupt")
    registry = Registry()
    assert failure_of(registry, "Fake").details["reason_code"] == "IMPORT_FAILED"
    assert row_of(registry, "Fake").state is BackendState.BROKEN


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (GOOD.replace("{id!r}", "'FakeOther'"), "its id is 'FakeOther'"),
        ("Backend = None", "not an IBackend"),
        ("Backend = 7", "an instance of builtins.int"),
        ("class Backend: id = 'Fake'", "fake_fake.Backend, which is not an IBackend"),
        ("from dovetail import IBackend\nclass Backend(IBackend): id = 'Fake'", "lacks create_workload_factory"),
    ],
)
def test_offer_that_breaks_the_contract(site: Site, source: str, text: str) -> None:
    site.add("Fake", source=source)
    registry = Registry()
    error = failure_of(registry, "Fake")
    assert error.code == ErrorCode.BACKEND_CONTRACT
    assert text in error.message
    assert error.details["distribution"] == "fake-fake"
    assert row_of(registry, "Fake").state is BackendState.BROKEN


@pytest.mark.parametrize("phase", ["create", "id"])
def test_code_of_the_backend_that_raises_is_reported_with_its_phase(site: Site, phase: str) -> None:
    body = {
        "create": "    def __init__(self):\n        raise SystemExit('no')\n",
        "id": "    @property\n    def id(self):\n        raise ZeroDivisionError('no')\n",
    }[phase]
    site.add("Fake", source=GOOD + "\n" + body)
    error = failure_of(Registry(), "Fake")
    assert error.code == ErrorCode.BACKEND_BROKEN
    assert error.details["phase"] == phase
    assert error.__cause__ is not None


def test_missing_driver_is_a_state_and_may_come_later(site: Site) -> None:
    site.add(
        "Fake",
        source="from dovetail import BackendUnavailableError\nready = False\n"
        + GOOD
        + "\n    def __init__(self):\n        if not ready:\n"
        "            raise BackendUnavailableError('libOpenCL.so.1 is missing', hint='install it', state='driver_missing')\n",
    )
    registry = Registry()
    error = failure_of(registry, "Fake")
    assert error.details["state"] == "driver_missing"
    row = row_of(registry, "Fake")
    assert (row.state, row.reason, row.hint) == (BackendState.DRIVER_MISSING, "libOpenCL.so.1 is missing", "install it")
    sys.modules["fake_fake"].ready = True  # type: ignore[attr-defined]  # the generated module
    assert registry.get("Fake").id == "Fake"
    row = row_of(registry, "Fake")
    assert (row.state, row.reason) == (BackendState.LOADED, "")


def test_absent_backend_is_named_with_what_is_ready_and_what_is_close(site: Site) -> None:
    site.add("CpuFake")
    site.add("FakeBroken", manifest="{")
    error = failure_of(Registry(), "cpufaek")
    assert isinstance(error, BackendUnavailableError)
    assert error.code == ErrorCode.BACKEND_UNAVAILABLE
    assert error.details["state"] == "not_installed"
    assert "CpuFake" in error.details["ready"]
    assert "FakeBroken" not in error.details["ready"]
    assert error.hint == "did you mean CpuFake?"
    assert "CpuFake" in error.message


def test_malformed_id_is_refused() -> None:
    assert failure_of(Registry(), "no id").code == ErrorCode.BACKEND_ID_INVALID


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


def test_every_error_is_of_the_family(site: Site) -> None:
    site.add("Fake", source="raise SystemExit")
    error = failure_of(Registry(), "Fake")
    assert isinstance(error, DovetailError)
    assert pickle.loads(pickle.dumps(error)).code == error.code


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
