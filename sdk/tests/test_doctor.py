"""`dovetail doctor`, `probe`, `quarantine`, `lock`, in processes with a good and a bad backend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail.contract.abi_version import ABI_VERSION

Run = Callable[..., subprocess.CompletedProcess[str]]


def install(folder: Path, id: str, source: str) -> Path:
    package = f"fake_{id.lower()}"
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text(source)
    manifest = {"id": id, "abi": list(ABI_VERSION), "device": "npu", "rank": 1, "description": f"about {id}"}
    (folder / package / "dovetail-backend.json").write_text(json.dumps(manifest))
    info = folder / f"{package}-2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.5\n")
    (info / "entry_points.txt").write_text(f"[dovetail.backends]\n{id} = {package}:Backend\n")
    return folder / package


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


@pytest.fixture
def run(tmp_path: Path, site: Path) -> Run:
    """Run the command with probing on, a cache of its own and a home folder."""

    def run(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
        private = {"DOVETAIL_PROBE": "on", "DOVETAIL_CACHE_DIR": str(tmp_path / "cache"), "HOME": str(tmp_path)}
        return subprocess.run(
            [sys.executable, "-m", "dovetail_sdk", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": path, **private, "XDG_CONFIG_HOME": str(tmp_path), **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_doctor_finds_nothing_wrong(run: Run, tmp_path: Path) -> None:
    done = run("doctor", "CpuRef")
    assert done.returncode == 0, done.stdout
    assert "CpuRef: ready, passed step probe" in done.stdout
    assert "note: self-test passed: add, float32" in done.stdout
    assert f"verdicts are kept in {tmp_path / 'cache'}" in done.stdout
    assert done.stdout.endswith("1 found, 1 ready, 0 refused\n")


def test_doctor_says_by_which_step_why_and_what_to_do(run: Run, site: Path) -> None:
    install(site, "Exits", "import os\nos._exit(3)\n")
    install(site, "Broken", "raise OSError('libacme is upset')\n")
    (install(site, "Malformed", "") / "dovetail-backend.json").write_text("{")
    done = run("doctor")
    assert done.returncode == 1
    assert "Exits: refused at step probe: PROBE_EXITED" in done.stdout
    assert "  from: fake-exits 2.5, fake_exits:Backend" in done.stdout
    assert "  why: it ended the process with exit code 3" in done.stdout
    assert "to try it again: dovetail quarantine release Exits" in done.stdout
    assert "Broken: refused at step load: IMPORT_FAILED" in done.stdout
    assert "OSError: libacme is upset" in done.stdout
    assert "Malformed: refused at step list: BAD_MANIFEST" in done.stdout
    ready, refused = done.stdout.count(": ready, passed step"), done.stdout.count(": refused at step")
    assert "CpuRef: ready" in done.stdout
    assert refused - done.stdout.count("refused at step device") == 3  # of others the device may not be here
    assert done.stdout.endswith(f"{ready + refused} found, {ready} ready, {refused} refused\n")
    again = run("doctor", "Exits")
    assert "in quarantine since" in again.stdout
    without = run("doctor", "Broken", "--no-probe")
    assert without.returncode == 0
    assert "Broken: ready, passed step abi" in without.stdout
    assert "not probed" in without.stdout


def test_doctor_on_a_backend_that_is_not_there(run: Run) -> None:
    done = run("doctor", "CpuReff")
    assert done.returncode == 1
    assert "CpuReff: refused at step list: NOT_INSTALLED" in done.stdout
    assert "do: did you mean CpuRef?" in done.stdout


def test_doctor_tells_of_folders_and_of_distributions_that_cannot_be_read(run: Run, site: Path, tmp_path: Path) -> None:
    install(site, "Fake", "")
    (site / "fake_fake-2.5.dist-info" / "entry_points.txt").write_bytes(b"\xff[dovetail.backends]")
    folder = tmp_path / "plugins"
    folder.mkdir()
    folder.chmod(0o777)
    done = run("doctor", DOVETAIL_BACKEND_PATH=f"{folder}:relative")
    assert done.returncode == 1
    assert f"from: {folder}" in done.stdout
    assert "UNSAFE_PATH" in done.stdout
    assert "warning: entry_points.txt of fake-fake" in done.stdout
    assert done.stdout.count("refused at step place") == 2


def configured(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "dovetail" / "config.toml"
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    return file


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("command_line = 3", ["command_line is 3, but a table [command_line] is expected"]),
        ("threads = \n", ["config.toml is ignored: Invalid value (at line 1, column 11)"]),
        ("lock = 3\nbackend_path = 3", ["lock in config.toml is ignored: it must be a text", "backend_path in config.toml is"]),
        ("trusted_paths = []", ["there is no setting 'trusted_paths'; did you mean 'trusted_path'?"]),
        (
            "[command_line]\nnonsense = 1\nthreads = 'many'\n[command_line.explian]\n[command_line.doctor]\njsn = true",
            [
                "'nonsense' is no option that several commands have",
                "threads is 'many'",
                "there is no command 'explian'; did you mean 'explain'?",
                "`dovetail doctor` has no option 'jsn'; did you mean 'json'?",
            ],
        ),
        ("[command_line.doctor]\nbundle = '/not/there/x.zip'", ["there is no folder '/not/there'"]),
        ("[command_line]\nlimit = 'much'", ["limit is 'much': 'much' is no limit"]),
    ],
)
def test_doctor_reports_a_wrong_configuration_and_goes_on(run: Run, tmp_path: Path, text: str, found: list[str]) -> None:
    configured(tmp_path, text)
    done = run("doctor", "CpuRef", "--no-probe")
    assert done.returncode == 1
    told = [line for line in done.stdout.splitlines() if line.startswith("configuration: ")]
    assert len(told) == len(found)
    for sentence in found:
        assert sum(sentence in line for line in told) == 1, told
    assert "CpuRef: ready" in done.stdout
    assert done.stdout.endswith("1 found, 1 ready, 0 refused\n")
    assert "warning: " not in done.stdout, "nothing is told twice"
    report = json.loads(run("doctor", "CpuRef", "--no-probe", "--json").stdout)
    assert len(report["configuration"]["problems"]) == len(found)


def test_a_configuration_that_is_too_large_is_told_of_where_it_is_read(run: Run, tmp_path: Path) -> None:
    file = configured(tmp_path, f"[command_line]\nthreads = 1\n# {'x' * (1 << 20)}")
    told = f"{file} is ignored: it is larger than 1 MiB, the most that is read"
    done = run("show", "digits")
    assert done.returncode == 0
    assert told in done.stderr
    done = run("doctor", "CpuRef", "--no-probe")
    assert done.returncode == 1
    assert f"configuration: {told}" in done.stdout
    text = "threads = 1\n"
    configured(tmp_path, f"[command_line]\n{text}#{'x' * ((1 << 20) - len(text) - 17)}\n")
    assert file.stat().st_size == 1 << 20
    done = run("doctor", "CpuRef", "--no-probe")
    assert (done.returncode, done.stderr) == (0, "")
    assert "options have defaults in config.toml: threads" in done.stdout


def test_doctor_in_json(run: Run, site: Path) -> None:
    install(site, "Broken", "raise OSError('upset')\n")
    done = run("doctor", "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    rows = {row["id"]: row for row in report["rows"]}
    assert (rows["Broken"]["code"], rows["Broken"]["step"], rows["Broken"]["ready"]) == ("IMPORT_FAILED", "load", False)
    assert rows["CpuRef"]["ready"]
    assert report["system"]["abi"] == list(ABI_VERSION)


def test_bundle_holds_what_a_support_desk_needs_and_no_home_folder(run: Run, site: Path, tmp_path: Path) -> None:
    install(site, "Exits", "import os\nos._exit(3)\n")
    bundle = tmp_path / "report.zip"
    assert run("doctor", "--bundle", bundle, ACME_SECRET="not-to-be-told").returncode == 1
    with zipfile.ZipFile(bundle) as file:
        content = {name: file.read(name).decode() for name in file.namelist()}
    parts = {"rows", "folders", "quarantine", "cache", "warnings", "configuration", "defaults", "system"}
    assert set(content) == {f"{name}.json" for name in parts}
    whole = "".join(content.values())
    assert str(tmp_path) not in whole
    assert "not-to-be-told" not in whole
    assert "ACME_SECRET" not in whole
    system = json.loads(content["system.json"])
    assert system["environment"]["DOVETAIL_CACHE_DIR"] == "~/cache"
    assert {"numpy", "dovetail-core", "fake_exits"} <= system["distributions"].keys()
    assert json.loads(content["quarantine.json"])[0]["code"] == "PROBE_EXITED"


def test_probe_at_install_time(run: Run, site: Path, tmp_path: Path) -> None:
    install(site, "Exits", "import os\nos._exit(3)\n")
    done = run("probe")
    assert done.returncode == 1
    assert "CpuRef: self-test passed: add, float32" in done.stdout
    assert "Exits: PROBE_EXITED at step probe" in done.stdout
    passed = {path.stem for path in (tmp_path / "cache" / "passed").iterdir()}
    assert "CpuRef" in passed
    assert "Exits" not in passed


def test_quarantine_is_listed_and_released(run: Run, site: Path) -> None:
    assert run("quarantine", "list").stdout == "nothing is in quarantine\n"
    install(site, "Exits", "import os\nos._exit(3)\n")
    run("probe", "Exits")
    assert "PROBE_EXITED" in run("quarantine", "list").stdout
    assert json.loads(run("quarantine", "list", "--json").stdout)[0]["count"] == 1
    listing = run("backends").stdout
    assert "quarantined" in listing
    assert "Exits: PROBE_EXITED at step probe\n  why: in quarantine since" in listing
    assert run("quarantine", "release").returncode == 2
    assert run("quarantine", "release", "Other").returncode == 1
    assert run("quarantine", "release", "Exits").stdout.startswith("Exits is released")
    run("probe", "Exits")
    assert run("quarantine", "release", "--all").returncode == 0
    assert run("quarantine", "list").stdout == "nothing is in quarantine\n"


def test_lock_pins_what_a_backend_consists_of(run: Run, site: Path, tmp_path: Path) -> None:
    package = install(site, "Fake", "raise ImportError\n")
    lock = tmp_path / "dovetail.lock"
    assert run("lock", "Fake", "-o", lock).returncode == 0
    assert set(json.loads(lock.read_text())["Fake"]) == {"fake_fake/__init__.py", "fake_fake/dovetail-backend.json"}
    assert "IMPORT_FAILED" in run("doctor", "Fake", DOVETAIL_LOCK=str(lock)).stdout
    (package / "__init__.py").write_text("raise ImportError  # changed\n")
    assert "HASH_MISMATCH" in run("doctor", "Fake", DOVETAIL_LOCK=str(lock)).stdout
    assert run("lock", "Absent", "-o", lock).returncode == 2
