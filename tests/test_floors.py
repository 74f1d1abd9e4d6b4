"""Check the floors of the core: imports go to the same floor or below, and never in a circle.

Imports inside functions and for type checkers count too: they tie modules together as much as any
other.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core" / "src"

FLOORS = (
    *("ground", "graph", "layers", "quantized", "contract", "native", "discovery"),
    *("isolation", "optimizer", "runtime", "loading"),
)

PUBLIC = (
    "dovetail",
    "dovetail.contract.abi_version",
    "dovetail.contract.artefacts",
    "dovetail.contract.backend_id",
    "dovetail.contract.claims",
    "dovetail.contract.interfaces",
    "dovetail.contract.memory",
    "dovetail.contract.own_manifest",
    "dovetail.contract.subgraph",
    "dovetail.graph.descriptor",
    "dovetail.graph.element_types",
    "dovetail.graph.expressions",
    "dovetail.graph.graph",
    "dovetail.graph.late_array",
    "dovetail.graph.layer",
    "dovetail.graph.meaning",
    "dovetail.graph.size_rules",
    "dovetail.graph.symbolic_inference",
    "dovetail.graph.tensor",
    "dovetail.graph.translation_calls",
    "dovetail.ground.close_names",
    "dovetail.ground.compilers",
    "dovetail.ground.errors",
    "dovetail.ground.foreign_text",
    "dovetail.ground.host_exceptions",
    "dovetail.ground.late_reads",
    "dovetail.ground.limits",
    "dovetail.ground.logs",
    "dovetail.ground.making",
    "dovetail.ground.names_elsewhere",
    "dovetail.ground.offers",
    "dovetail.ground.outside_translations",
    "dovetail.ground.pieces",
    "dovetail.ground.progress",
    "dovetail.ground.records",
    "dovetail.ground.registered_translations",
    "dovetail.ground.settings",
    "dovetail.layers",
    "dovetail.quantized.bounds",
    "dovetail.quantized.fixed_point",
    "dovetail.quantized.tables",
)
"""Modules that backends, parsers and what a vendor writes may import."""

FOR_THE_SDK = (
    "dovetail.contract.conditions",
    "dovetail.contract.device",
    "dovetail.contract.part_facts",
    "dovetail.contract.private_layer",
    "dovetail.contract.promises",
    "dovetail.contract.quantities",
    "dovetail.discovery.content",
    "dovetail.discovery.manifest",
    "dovetail.discovery.reasons",
    "dovetail.discovery.registry",
    "dovetail.discovery.verdicts",
    "dovetail.ground.cell_widths",
    "dovetail.ground.text_tables",
    "dovetail.layers.kind_words",
    "dovetail.graph.summary",
    "dovetail.ground.units",
    "dovetail.optimizer",
    "dovetail.optimizer.assignment",
    "dovetail.optimizer.candidates",
    "dovetail.optimizer.macs",
    "dovetail.optimizer.tuned_keys",
    "dovetail.optimizer.passes",
    "dovetail.optimizer.placement",
    "dovetail.optimizer.report_words",
    "dovetail.optimizer.tuned_choices",
    "dovetail.runtime",
    "dovetail.runtime.plan_snapshot",
    "dovetail.runtime.workload",
)
"""What the project's own tools look at beyond that."""


def name_of(path: Path, root: Path) -> str:
    """Return the dotted name of a module."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path, CORE) for path in CORE.rglob("*.py*") if path.suffix in {".py", ".pyx"}}


def imports_of(path: Path, module: str) -> set[str]:
    """Return the core modules that a file imports anywhere; a package stands for its `__init__`."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(_python(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            source = ".".join(filter(None, [base, node.module]))
            found |= {name if (name := f"{source}.{alias.name}") in MODULES else source for alias in node.names}
    return {name for name in found if name.split(".")[0] == "dovetail"}


def _python(path: Path) -> str:
    """Return what Python can parse: of Cython, the import statements at the beginning of a line."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        return text
    statements = re.findall(r"^(?:from|import) [^\n(]*(?:\([^)]*\))?", text, re.MULTILINE)
    return "\n".join(statement for statement in statements if " cimport " not in statement)


def graph() -> dict[str, set[str]]:
    """Return the modules that each module of the core imports."""
    files = [path for path in sorted(CORE.rglob("*.py*")) if path.suffix in {".py", ".pyx"}]
    return {(name := name_of(path, CORE)): imports_of(path, name) - {name} for path in files}


def floor_of(module: str) -> str:
    """Return the folder of the core that a module lies in; empty for the root."""
    return [*module.split("."), ""][1]


def test_no_module_imports_from_a_floor_above():
    wrong = []
    for module, imported in graph().items():
        for other in sorted(imported):
            here, there = floor_of(module), floor_of(other)
            if here in FLOORS and (there not in FLOORS or FLOORS.index(there) > FLOORS.index(here)):
                wrong.append(f"{module} imports {other}")
    assert not wrong


def test_every_folder_of_the_core_is_a_floor():
    folders = {path.parent.name for path in (CORE / "dovetail").glob("*/__init__.py")}
    assert folders == set(FLOORS)


def test_modules_do_not_import_in_a_circle():
    imported = graph()
    imported.pop("dovetail")  # its table of names leads everywhere, when they are asked for
    finished: set[str] = set()

    def walk(module: str, way: list[str]) -> None:
        assert module not in way, " -> ".join([*way[way.index(module) :], module])
        if module in finished:
            return
        for other in sorted(imported.get(module, ())):
            walk(other, [*way, module])
        finished.add(module)

    for module in sorted(imported):
        walk(module, [])


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        ("onnx_parser/src", PUBLIC),
        ("tflite_parser/src", PUBLIC),
        ("building", PUBLIC + FOR_THE_SDK),
        ("reference_backend", PUBLIC),
        ("neon_backend", PUBLIC),
        ("cl_backend", PUBLIC),
        ("npu_vsi_backend", PUBLIC),
        ("templates", PUBLIC),
        ("sdk/src", PUBLIC + FOR_THE_SDK),
    ],
)
def test_other_distributions_import_public_modules(folder, allowed):
    wrong = []
    for path in sorted((ROOT / folder).rglob("*.py*")):
        if path.suffix not in {".py", ".pyx"} or {"build", "tests"} & set(path.relative_to(ROOT).parts):
            continue
        wrong += [f"{path.relative_to(ROOT)} imports {name}" for name in sorted(imports_of(path, "") - set(allowed))]
    assert not wrong


def test_the_lists_of_public_modules_name_modules():
    assert set(PUBLIC + FOR_THE_SDK) <= MODULES
