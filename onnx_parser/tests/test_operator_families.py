"""Operators are found without importing all that translate any."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from dovetail_onnx import registry
from dovetail_onnx.operators import FAMILIES, HOME


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_registers_what_the_table_says(family: str) -> None:
    module = import_module(f"dovetail_onnx.operators.{family}")
    registered = {
        name
        for name, versions in registry._TABLE.items()
        if any(version.translate.__module__ == module.__name__ for version in versions)
    }
    assert registered == set(FAMILIES[family].split())


def test_each_module_is_in_the_table_and_each_operator_once() -> None:
    import pkgutil

    from dovetail_onnx import operators

    helpers = {"windows"}  # what convolution and pooling share
    assert {found.name for found in pkgutil.iter_modules(operators.__path__)} == FAMILIES.keys() | helpers
    assert len(HOME) == sum(len(names.split()) for names in FAMILIES.values())


def test_an_operator_imports_its_family_alone() -> None:
    program = """
import sys
from dovetail_onnx.registry import find, is_known
assert is_known("", "Einsum") and not is_known("", "Nothing")
assert find("", "Add", 14) is not None and find("", "Nothing", 14) is None
print(*(name.rpartition(".")[2] for name in sys.modules if name.startswith("dovetail_onnx.operators.")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["elementwise"]
