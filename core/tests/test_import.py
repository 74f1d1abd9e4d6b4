"""What `import dovetail` costs and shows, each in a fresh process."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"


def output_of(program: str, *path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={"PYTHONPATH": ":".join(map(str, (SOURCE, *path)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def names_for_type_checkers(package: str) -> set[tuple[str, str | None]]:
    """Return what a package imports for type checkers alone, with the module of each name."""
    tree = ast.parse((SOURCE / "dovetail" / package / "__init__.py").read_text(encoding="utf-8"))
    return {
        (alias.name, node.module)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_import_loads_nothing_but_the_package_itself() -> None:
    program = """
import sys
before = set(sys.modules)
import dovetail
print(*{name for name in set(sys.modules) - before if name.partition(".")[0] not in sys.stdlib_module_names})
"""
    assert output_of(program).split() == ["dovetail"]


@pytest.mark.parametrize(
    "program", ["dovetail.Network", "dovetail.IBackend", "dovetail.contract.backend_id", "dovetail.DovetailError"]
)
def test_control_plane_needs_no_extension_no_metadata_and_no_backend(program: str, tmp_path: Path) -> None:
    """A build imports the core before its extensions exist."""
    (tmp_path / "fake_backend.py").write_text("raise SystemExit('imported')")
    info = tmp_path / "fake_backend-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dovetail.backends]\nFake = fake_backend:Backend\n")
    text = f"""
import sys
import dovetail, dovetail.contract.backend_id
{program}
loaded = set(sys.modules)
print([name for name in loaded if name.startswith(("importlib_metadata", "importlib.metadata", "fake_", "dovetail.runtime"))])
print([name for name in loaded if name.startswith("dovetail.") and sys.modules[name].__file__.endswith((".so", ".pyd"))])
"""
    assert output_of(text, tmp_path).split() == ["[]", "[]"]


def test_misspelt_name_is_an_attribute_error() -> None:
    program = """
import dovetail
try:
    dovetail.lod
except AttributeError as error:
    print(error)
print(hasattr(dovetail, "Nettwork"))
"""
    assert output_of(program).splitlines() == ["module 'dovetail' has no attribute 'lod'", "False"]


@pytest.mark.parametrize("package", ["layers", "optimizer/passes"])
def test_late_names_for_type_checkers_are_those_that_run(package: str) -> None:
    shown = names_for_type_checkers(package)
    module = import_module(f"dovetail.{package.replace('/', '.')}")
    assert shown == {(name, home) for home, names in module._MODULES.items() for name in names}
    assert {name for name, _ in shown} == set(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_builder_methods_come_with_their_families() -> None:
    program = """
import sys
import dovetail
def families():
    return sorted(name.rpartition(".")[2] for name in sys.modules if name.startswith("dovetail.layers."))
net = dovetail.Network("small")
net.output(net.relu(net.addition(net.input("x", (4,)), net.input("y", (4,)))), "z")
print(*families())
try:
    net.rellu
except AttributeError as error:
    print(error)
print(dovetail.Network.top_k.__name__, callable(net.softmax), hasattr(dovetail.Network, "sofmax"), hasattr(net, "__fspath__"))
print("resize" in dir(dovetail.Network), "resize" in dir(net))
"""
    seen, error, found, listed = output_of(program).splitlines()
    assert "elementwise" in seen.split()
    assert not {"convolution", "resizing", "indexing"} & set(seen.split())
    assert error == "'Network' object has no attribute 'rellu'"
    assert found == "top_k True False False"
    assert listed == "True True"


def test_kinds_that_a_network_does_not_have_are_known_by_name() -> None:
    program = """
import dovetail
from dovetail.contract.backend_id import BackendRequest
from dovetail.optimizer.constraints import Constraints
net = dovetail.Network("small")
net.output(net.relu(net.input("x", (4,))), "y")
for kind in ("TopK", "TopKay"):
    try:
        Constraints(net, [BackendRequest.parse("Some")], None, {kind: "Some"}, fallback=True)
        print("known")
    except dovetail.OptionError:
        print("unknown")
"""
    assert output_of(program).split() == ["known", "unknown"]


def test_names_for_type_checkers_are_those_that_run() -> None:
    """Type checkers read the imports, programs the table: both must tell the same."""
    shown = names_for_type_checkers("")
    import dovetail

    assert shown == set(dovetail._HOME.items())
    assert set(dovetail.__all__) == {name for name, _ in shown} | {"__version__"}
    assert set(dovetail.__all__) <= set(dir(dovetail))


def test_all_names_are_there() -> None:
    program = "import dovetail\nfor name in dovetail.__all__:\n    assert getattr(dovetail, name) is not None, name\n"
    output_of(program)


def test_every_error_of_the_family_is_public() -> None:
    import dovetail
    from dovetail.ground import errors

    family = {
        name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, errors.DovetailError)
    }
    assert family <= set(dovetail.__all__)


def test_version_is_that_of_the_distribution() -> None:
    from importlib_metadata import PackageNotFoundError, version

    import dovetail

    try:
        expected = version("dovetail-core")
    except PackageNotFoundError:
        expected = "0+unknown"
    assert dovetail.__version__ == expected
