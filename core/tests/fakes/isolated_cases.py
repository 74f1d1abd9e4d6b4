"""What tests of backends in processes of their own share: a network, registries, who is alive."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dovetail import IBackend, Network
from dovetail.discovery.registry import Registry


def network(shape: Sequence[int | str] = (2, 3), dtype: npt.DTypeLike = np.float32) -> Network:
    net = Network("scaled")
    net.output(net.relu(net.input("x", shape, dtype), name="scale"), "y")
    return net


def registry_of(backend: IBackend, manifest: Mapping[str, Any] | None = None) -> Registry:
    registry = Registry()
    registry.register(backend, manifest=manifest)
    return registry


@pytest.fixture
def children() -> Callable[[], list[int]]:
    """Return what lists the processes of a test that live.

    What earlier tests of this process still hold is left out.
    """
    others = set(_of_backends(_below()))
    return lambda: _of_backends(_below() - others)


def _below() -> set[int]:
    """Return the processes below this one, at any depth."""
    found, pending = [], [os.getpid()]
    while pending:
        pid = pending.pop()
        for task in Path(f"/proc/{pid}/task").glob("*"):
            try:
                new = [int(word) for word in (task / "children").read_text().split()]
            except OSError:
                continue
            found += new
            pending += new
    return set(found)


def _of_backends(processes: set[int]) -> list[int]:
    return [pid for pid in processes if "isolated_template" in _command(Path(f"/proc/{pid}"))]


def _command(process: Path) -> str:
    """Return the command line of a process, empty if it has ended.

    Linux shows none for a moment after exec, when `Popen` has returned already.
    """
    while True:
        text = (process / "cmdline").read_text()
        if text or (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return text
