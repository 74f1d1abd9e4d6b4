"""Isolate all tests: from the verdicts of others and of this user, and from probing.

A test pays only for the probing that it is about, and takes no plan that another one kept.

A shell starts its background jobs with Ctrl-C ignored; tests that are about it must find it as a
program in front does.

Slow tests run with ``--all``, or where they are asked for by ``-m``. On a slow machine ``--within``
leaves out those that would begin late, and says so.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

_START = time.monotonic()
_CACHE = tempfile.mkdtemp(prefix="dovetail-tests-")
atexit.register(shutil.rmtree, _CACHE, True)
os.environ["DOVETAIL_CACHE_DIR"] = _CACHE
os.environ.setdefault("DOVETAIL_PROBE", "off")
os.environ.setdefault("DOVETAIL_PLANS", "off")
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that run slow tests too."""
    parser.addoption("--all", action="store_true", help="run slow tests too, which CI does")
    parser.addoption("--within", type=float, metavar="MINUTES", help="skip slow tests that would begin after so long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out, unless they were asked for."""
    if config.option.all or config.option.markexpr:
        return
    slow = {item for item in items if item.get_closest_marker("slow")}
    if slow:
        items[:] = [item for item in items if item not in slow]
        config.hook.pytest_deselected(items=list(slow))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the tests themselves out of each collection: many tests wait for one, repeatedly."""
    _keep_out_of_collections()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a slow test when the time for slow ones is over, before its fixtures build anything."""
    within = item.config.option.within
    if within is not None and time.monotonic() - _START > within * 60 and item.get_closest_marker("slow"):
        pytest.skip(f"{item.nodeid} is slow, and would have begun after the {within:g} minutes of --within")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Keep what a file of tests leaves, such as a timer for each test, out of later collections.

    A test still holds its fixtures while it is torn down: what is kept out then is never freed.
    """
    result = yield
    if nextitem is None or nextitem.path != item.path:
        _keep_out_of_collections()
    return result


def _keep_out_of_collections() -> None:
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Have failures named at once, where one process writes for all."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_FailuresAtOnce(reporter))


class _FailuresAtOnce:
    """Name a test that failed as soon as it is known: a run that is cut short prints no summary."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the test's name, what it was doing and for how long, and the last line of why."""
        if report.failed:
            reason = (report.longreprtext.strip() or "no reason").splitlines()[-1]
            minutes = (time.monotonic() - _START) / 60
            self._reporter.line("")  # behind the letters of tests
            self._reporter.line(
                f"FAILED {report.nodeid} ({report.when}, {report.duration:.1f} s, {minutes:.0f} min after the start): {reason}"
            )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say at the end what was left out."""
    is_choice = config.option.all or config.option.markexpr or config.option.keyword
    is_spread = bool(getattr(config.option, "numprocesses", 0))  # then only the workers know what was left out
    if not is_choice and (is_spread or terminalreporter.stats.get("deselected")):
        terminalreporter.write_line("slow tests were left out; --all runs them, as CI does")


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    """A picture [N, 3, 8, 8] to 5 scores: the means of red, green and blue, then -1 and 0.25."""
    from onnx import TensorProto, helper, numpy_helper

    weights = np.zeros((3, 5), np.float32)
    weights[0, 0] = weights[1, 1] = weights[2, 2] = 1
    bias = np.array([0, 0, 0, -1, 0.25], np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["picture"], ["means"], name="pool"),
            helper.make_node("Flatten", ["means"], ["flat"], name="flatten"),
            helper.make_node("Gemm", ["flat", "weights", "bias"], ["scores"], name="classes"),
        ],
        "classifier",
        [helper.make_tensor_value_info("picture", TensorProto.FLOAT, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 5])],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(bias, "bias")],
    )
    return _saved(graph, tmp_path / "classifier.onnx")


@pytest.fixture
def adder(tmp_path: Path) -> Path:
    """Two inputs [2, 3], two outputs: their sum and its negative."""
    from onnx import TensorProto, helper

    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("a", "b", "sum", "negative")]
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"], name="add"),
        helper.make_node("Neg", ["sum"], ["negative"], name="negate"),
    ]
    return _saved(helper.make_graph(nodes, "adder", value[:2], value[2:]), tmp_path / "adder.onnx")


def _saved(graph: Any, path: Path) -> Path:
    """Write a model of ONNX, which only the tests that need one import."""
    import onnx
    from onnx import helper

    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path
