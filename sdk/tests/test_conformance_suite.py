"""The pytest suite of the kit, as a vendor would use and abuse it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
HEAD = """
import pytest
from dovetail_sdk.conformance import BackendConformance
from dovetail_sdk.conformance.checks import checks_up_to
"""
SUITE = """
class TestSmall(BackendConformance):
    level = 0

    @pytest.fixture
    def backend(self):
        return "broken_backends:Correct"
"""


def run_suite(folder: Path, body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_backend.py").write_text(HEAD + body)
    path = os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", str(folder), "-rA"]
    return subprocess.run(
        [*command, str(folder / "test_backend.py"), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        check=False,
    )


def test_one_class_and_one_fixture_are_a_suite(tmp_path: Path) -> None:
    done = run_suite(tmp_path, SUITE)
    assert done.returncode == 0, done.stdout
    assert "test_conforms[identity.id_is_valid]" in done.stdout
    assert "test_run_proves_something" in done.stdout


def test_a_backend_as_an_object_will_do(tmp_path: Path) -> None:
    body = SUITE.replace('return "broken_backends:Correct"', "import broken_backends; return broken_backends.Correct()")
    assert run_suite(tmp_path, body).returncode == 0


def test_a_failure_names_the_check_and_what_to_look_at(tmp_path: Path) -> None:
    done = run_suite(tmp_path, SUITE.replace("Correct", "NoCapabilities"))
    assert done.returncode == 1
    assert "not a Capabilities" in done.stdout
    assert "Troubleshooting: `capabilities` must return" in done.stdout


def test_a_part_of_the_suite_can_be_run_alone(tmp_path: Path) -> None:
    done = run_suite(tmp_path, SUITE, "-k", "id_is_valid or proves")
    assert done.returncode == 0, done.stdout
    assert "only a part of the suite" in done.stdout


def test_a_declared_deviation_is_shown_as_an_expected_failure(tmp_path: Path) -> None:
    body = SUITE.replace("broken_backends:Correct", "promising_backends:DeviatesAsDeclared").replace("level = 0", "level = 2")
    done = run_suite(tmp_path, body, "-k", "ElementwiseBinary")
    assert done.returncode == 0, done.stdout
    assert "1 xfailed" in done.stdout
    assert "deviates as declared: " in done.stdout
    further = run_suite(tmp_path, body.replace("DeviatesAsDeclared", "DeviatesFurther"), "-k", "ElementwiseBinary")
    assert further.returncode == 1
    assert "1 failed" in further.stdout


TAMPERED = {
    "overridden": ("    def test_conforms(self): pass\n", "overrides test_conforms"),
    "deleted": ("    test_run_proves_something = None\n", "overrides test_run_proves_something"),
    "other tests generated": ("    def pytest_generate_tests(self, metafunc): pass\n", "overrides pytest_generate_tests"),
    "other target": ("    @pytest.fixture\n    def target(self): return None\n", "overrides target"),
    "marked to be skipped": ("    pytestmark = pytest.mark.skip(reason='later')\n", "is marked skip"),
    "skipped under a condition": ("    pytestmark = pytest.mark.skipif(True, reason='later')\n", "is marked skipif"),
    "marked to fail": ("    pytestmark = [pytest.mark.xfail(reason='later')]\n", "is marked xfail"),
    "without a reason": ("    expected_failures = {'identity.id_is_valid': ' '}\n", "no reason for 'identity.id_is_valid'"),
    "with a void expectation": (
        "    expected_failures = {'Nothing/float32/*': 'a bug of ours'}\n",
        "no case that it matches failed",
    ),
    "expecting a failure that passes": (
        "    expected_failures = {'identity.id_is_valid': 'a bug of ours'}\n",
        "identity.id_is_valid passes now",
    ),
    "without what is required": (
        "    required = {'dovetail.Softmax': ['float32']}\n",
        "dovetail.Softmax of float32 is required",
    ),
    "without a backend": ("    backend = BackendConformance.backend\n", "give the class a fixture `backend`"),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_a_suite_that_was_tampered_with_fails(tmp_path: Path, how: str) -> None:
    lines, word = TAMPERED[how]
    done = run_suite(tmp_path, SUITE + lines)
    assert done.returncode != 0, done.stdout
    assert word in done.stdout


def test_decorators_cannot_skip_the_suite_either(tmp_path: Path) -> None:
    done = run_suite(tmp_path, SUITE.replace("class TestSmall", "@pytest.mark.skip(reason='later')\nclass TestSmall"))
    assert done.returncode != 0
    assert "is marked skip" in done.stdout


def test_a_subclass_of_a_suite_cannot_drop_a_test(tmp_path: Path) -> None:
    done = run_suite(tmp_path, SUITE + "\nclass TestLess(TestSmall):\n    test_conforms = None\n")
    assert done.returncode != 0
    assert "TestLess overrides test_conforms" in done.stdout


def test_checks_that_were_dropped_behind_its_back_are_missed(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "def pytest_collection_modifyitems(items):\n    items[:] = [one for one in items if 'id_is_valid' not in one.name]\n"
    )
    done = run_suite(tmp_path, SUITE)
    assert done.returncode == 1
    assert "1 checks of the suite did not run: identity.id_is_valid" in done.stdout


def test_an_expected_failure_is_told_with_its_reason(tmp_path: Path) -> None:
    body = SUITE.replace("Correct", "NoCapabilities")
    body += "    expected_failures = {'identity.capabilities_are_wellformed': 'comes with driver 2'}\n"
    done = run_suite(tmp_path, body)
    assert done.returncode == 0, done.stdout
    assert "comes with driver 2" in done.stdout
    assert "1 xfailed" in done.stdout


def test_a_suite_in_which_nothing_ran_fails(tmp_path: Path) -> None:
    done = run_suite(tmp_path, SUITE.replace("Correct", "RefusesEverything").replace("level = 0", "level = 2"))
    assert done.returncode == 1
    assert "nothing ran" in done.stdout


def test_a_suite_writes_a_report(tmp_path: Path) -> None:
    done = run_suite(tmp_path, f"{SUITE}    report = 'conformance.xml'\n")
    assert done.returncode == 0, done.stdout
    assert "identity" in (tmp_path / "conformance.xml").read_text()
