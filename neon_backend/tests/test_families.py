"""The tables of the families: what they name exists, and a load imports what its layers need."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import dovetail_neon
import dovetail_neon.families
from dovetail import PrivateLayer, layers
from dovetail_neon.families import FAMILIES, TABLES, found
from dovetail_neon.fusion.rewriting import MOVES, STRIPS

ENTRIES = [
    (table, kind)
    for family in FAMILIES
    for table in TABLES
    for kind in getattr(import_module(f"dovetail_neon.{family}"), table, {})
]


def kinds() -> set[str]:
    """Return the names of all kinds of the core and of CpuAcc."""
    package = Path(dovetail_neon.families.__file__).parent
    for path in package.glob("*/kinds.py"):
        import_module(f"dovetail_neon.{path.parent.name}.kinds")
    private, waiting = {getattr(one, "kind", "") for one in (getattr(layers, name) for name in layers.__all__)}, [PrivateLayer]
    while waiting:
        kind = waiting.pop()
        private.add(kind.kind)
        waiting += kind.__subclasses__()
    return private


@pytest.mark.parametrize(("table", "kind"), ENTRIES)
def test_what_a_table_names_is_a_function_for_a_kind_that_there_is(table, kind):
    assert callable(found(table, kind))
    assert kind in kinds()


def test_every_kind_stands_once_in_a_table():
    assert len(ENTRIES) == len(set(ENTRIES)) > 50


def test_kinds_that_are_refined_afterwards_exist():
    assert kinds() >= STRIPS | MOVES


def test_a_load_imports_the_families_of_its_layers_alone():
    """Each module takes time from the first result of a process."""
    program = """
import json, sys
import numpy as np
import dovetail
net = dovetail.Network("small")
net.output(net.relu(net.addition(net.input("x", (4,)), net.input("y", (4,)))), "z")
dovetail.load(net, "CpuAcc").run({"x": np.ones(4, np.float32), "y": np.ones(4, np.float32)})
print(json.dumps([name for name in sys.modules if name.startswith("dovetail_neon.")]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = {name.removeprefix("dovetail_neon.") for name in json.loads(done.stdout)}
    inside = {name for name in imported if name.partition(".")[0] in FAMILIES and "." in name}
    assert {name.partition(".")[0] for name in inside} == {"elementwise"}
