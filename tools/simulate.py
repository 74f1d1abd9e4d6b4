"""Run tests of GpuAcc's kernels on a simulated device: `dev.py simulate`, a plugin of pytest.

Oclgrind interprets kernels, and tells each read and write outside of a buffer and, with `--races`,
work items that meet in memory without a barrier. A test whose kernels it tells of fails. Tensors of
tests are buffers of their own, as on a device that shares memory with the host, and tests with
kernels are those that take the fixture `way`: both forms are run.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

LIBRARY = Path("lib", "oclgrind", "liboclgrind-rt.so")
# A driver for CPUs has these in instructions that the simulator does not know.
BUILD_OPTIONS = "-Drestrict= -D__builtin_prefetch(...)="
SHOWN = 3000
PATIENCE = 1800  # seconds for a test: what is interpreted takes its time
LANES = 16


def simulator():
    """Return the path of oclgrind's OpenCL library, or None."""
    command = shutil.which("oclgrind")
    library = Path(command).resolve().parents[1] / LIBRARY if command else None
    return library if library and library.exists() else None


def pytest_addoption(parser):
    """Add the option that finds races."""
    parser.addoption("--races", action="store_true", help="also tell of data races; takes twice as long")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Make the simulator the one device there is, before its library is loaded."""
    library = simulator()
    if library is None:
        raise pytest.UsageError("simulate needs oclgrind; on Debian: apt-get install oclgrind")
    config.option.timeout = config.option.timeout or PATIENCE
    log = tempfile.NamedTemporaryFile(prefix="oclgrind-", suffix=".log", delete=False)  # noqa: SIM115  # until the end
    config.add_cleanup(lambda: os.unlink(log.name))
    os.environ.update(
        DOVETAIL_OPENCL_LIB=str(library),
        OCLGRIND_BUILD_OPTIONS=BUILD_OPTIONS,
        OCLGRIND_COMPUTE_UNITS="2",
        OCLGRIND_GLOBAL_MEM_SIZE=str(1 << 31),
        OCLGRIND_LOG=log.name,
        OCLGRIND_MAX_ERRORS="1000000",
    )
    if config.option.races:
        os.environ["OCLGRIND_DATA_RACES"] = "1"
    from dovetail_cl.devices import all_facts

    all_facts()[0].update(is_unified=True, vector_width=LANES)


def pytest_collection_modifyitems(config, items):
    """Leave out what runs no kernels in both forms."""
    others = [item for item in items if "way" not in item.fixturenames]
    items[:] = [item for item in items if "way" in item.fixturenames]
    config.hook.pytest_deselected(items=others)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test if the simulator tells anything while it runs."""
    path = Path(os.environ["OCLGRIND_LOG"])
    before = path.stat().st_size
    result = yield
    with path.open(errors="replace") as log:
        log.seek(before)
        told = log.read(SHOWN)
    if told:
        pytest.fail(f"oclgrind tells:\n{told}", pytrace=False)
    return result
