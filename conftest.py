"""What all tests share: none finds the verdicts of another, or of this user, and none pays for probing what it is not about.

A shell starts its background jobs with Ctrl-C ignored; tests that are about it must find it as a program in front does.

Slow tests run with ``--all``, or where they are asked for by ``-m``.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile

import pytest

_CACHE = tempfile.mkdtemp(prefix="dovetail-tests-")
atexit.register(shutil.rmtree, _CACHE, True)
os.environ["DOVETAIL_CACHE_DIR"] = _CACHE
os.environ.setdefault("DOVETAIL_PROBE", "off")
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs slow tests too."""
    parser.addoption("--all", action="store_true", help="run slow tests too, which CI does")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out, unless they were asked for."""
    if config.option.all or config.option.markexpr:
        return
    slow = {item for item in items if item.get_closest_marker("slow")}
    if slow:
        items[:] = [item for item in items if item not in slow]
        config.hook.pytest_deselected(items=list(slow))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say at the end what was left out."""
    is_choice = config.option.all or config.option.markexpr or config.option.keyword
    is_spread = bool(getattr(config.option, "numprocesses", 0))  # then only the workers know what was left out
    if not is_choice and (is_spread or terminalreporter.stats.get("deselected")):
        terminalreporter.write_line("slow tests were left out; --all runs them, as CI does")
