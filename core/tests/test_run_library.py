"""Build and run the C tests of the library behind the runtime: plain and under sanitizers."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

CORE = Path(__file__).parents[1]
GCC = shutil.which("gcc")
STRICT = ["-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
THREAD_SANITIZER = ["-fsanitize=thread"]
MEMORY_SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# Ticks this short fall into runs of microseconds, thousands of times.
SHORT_TICKS = ["-DDVT_TICK_NS=20000"]

pytestmark = pytest.mark.skipif(GCC is None, reason="the C tests need gcc")


def build(program: Path, test: str, flags: list[str]) -> None:
    """Compile one test with the sources it tests.

    The linker flag lets a test refuse threads.
    """
    tested = {
        "test_channel": ("channel", "crossing", "spans"),
        "test_crossing": ("crossing",),
        "test_watchdog": ("watchdog",),
        "test_thread_pool": ("watchdog", "thread_pool", "usable_cores"),
        "test_plan": ("watchdog", "thread_pool", "usable_cores", "executor", "plan", "spans", "worker_times"),
    }
    sources = [CORE / "tests" / "c" / f"{test}.c", *(CORE / "csrc" / f"{name}.c" for name in tested[test])]
    flags = [*flags, f"-I{CORE / 'src' / 'dovetail' / 'include'}"]
    if test == "test_thread_pool":
        flags = [*flags, "-Wl,--wrap=pthread_create"]
    command = [str(GCC), *STRICT, *flags, *map(str, sources), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    # Where these tests run with a sanitizer themselves, its library is no business of a program
    # with another one.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)


def run_sanitized(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run under ThreadSanitizer.

    It cannot start where the kernel randomizes more address bits than it expects.
    """
    done = run(command)
    if "unexpected memory mapping" in done.stderr:
        done = run(["setarch", platform.machine(), "-R", *command])
    return done


def assert_passed(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.stdout, "no test ran"


@pytest.mark.parametrize(
    ("test", "flags"),
    [
        pytest.param("test_thread_pool", [], id="thread_pool"),
        pytest.param("test_plan", [], id="plan"),
        pytest.param("test_channel", [], id="channel"),
        pytest.param("test_crossing", [], id="crossing"),
        pytest.param("test_watchdog", [], id="watchdog"),
        pytest.param("test_watchdog", SHORT_TICKS, id="watchdog-short_ticks"),
    ],
)
def test_plain(test: str, flags: list[str], tmp_path: Path) -> None:
    build(tmp_path / test, test, flags)
    assert_passed(run([str(tmp_path / test)]))


@pytest.mark.parametrize(
    ("test", "flags"),
    [
        pytest.param("test_thread_pool", [], id="thread_pool"),
        pytest.param("test_plan", [], id="plan"),
        pytest.param("test_channel", [], id="channel"),
        pytest.param("test_watchdog", SHORT_TICKS, id="watchdog-short_ticks"),
    ],
)
def test_thread_sanitizer(test: str, flags: list[str], tmp_path: Path) -> None:
    build(tmp_path / test, test, [*flags, *THREAD_SANITIZER])
    assert_passed(run_sanitized([str(tmp_path / test), "--no-fork"]))


@pytest.mark.parametrize("test", ["test_thread_pool", "test_watchdog", "test_plan", "test_channel", "test_crossing"])
def test_address_and_undefined_behaviour_sanitizers(test: str, tmp_path: Path) -> None:
    build(tmp_path / test, test, MEMORY_SANITIZERS)
    assert_passed(run([str(tmp_path / test), "--no-fork"]))
