"""List the Cython modules of a package as extensions, with the core's headers and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dovetail.contract.abi_version import get_include

from .headers import PACKAGE, headers

PYTHON_SEMANTICS: Mapping[str, Any] = {"language_level": 3, "embedsignature": False}
"""Cython directives of a vendor's modules: what is written means what it means in Python."""

C_SEMANTICS: Mapping[str, Any] = {
    **PYTHON_SEMANTICS,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
}
"""Disable hidden checks, for packages of kernels.

This holds for Python objects too: write `x[len(x) - 1]`, not `x[-1]`.
"""

# -ffp-contract=off: the same bits on every machine, with or without fused multiply-add. -g0: a
# tenth of the wheel.
COMPILE_ARGUMENTS = (
    "-O3",
    "-g0",
    "-std=gnu11",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wno-unreachable-code",
)


def extensions(
    package: str,
    *,
    folder: str | Path = "src",
    sources: Iterable[str | Path] = (),
    module_sources: Mapping[str, Sequence[str | Path]] | None = None,
    include_dirs: Iterable[str | Path] = (),
    libraries: Sequence[str] = (),
    define_macros: Sequence[tuple[str, str | None]] = (),
    compile_arguments: Sequence[str] = COMPILE_ARGUMENTS,
    link_arguments: Sequence[str] = (),
    directives: Mapping[str, Any] = PYTHON_SEMANTICS,
) -> list[Any]:
    """List one extension per `.pyx` file below `folder/package`; a package may have none.

    Setuptools runs Cython itself where it is installed; the generated C goes to the build folder,
    the `.pyx` into the sdist.

    Args:
        package: Import name of the backend's package.
        folder: Folder that holds the package.
        sources: C or C++ files linked into every extension.
        module_sources: Further ones of single extensions, by the module's full name.
        include_dirs: Further folders of headers and `.pxd` files.
        libraries: What to link with.
        define_macros: Macros as (name, value).
        compile_arguments: Flags of the C compiler.
        link_arguments: Flags of the linker.
        directives: Of Cython.

    Raises:
        FileNotFoundError: There is no `.pyx` file of a module that `module_sources` names.
    """
    from setuptools import Extension

    root, include_dirs = Path(folder), list(include_dirs)
    modules = sorted((root / package).rglob("*.pyx"))
    names = {path: ".".join(path.relative_to(root).with_suffix("").parts) for path in modules}
    more = dict(module_sources or {})
    unknown = sorted(more.keys() - names.values())
    if unknown:
        raise FileNotFoundError(f"module_sources names {unknown[0]}, which has no .pyx file below {root / package}")
    # Cython searches sys.path, not import hooks, for .pxd files: an editable install of the core is
    # found by its folder.
    includes = [get_include(), str(PACKAGE.parent), *map(str, include_dirs)]
    own = [*own_headers(include_dirs), *map(str, sorted((root / package).rglob("*.pxd")))]
    return [
        _with_settings(
            Extension(
                names[path],
                [str(path), *map(str, sources), *map(str, more.get(names[path], ()))],
                include_dirs=includes,
                depends=[*headers(), *own],
                libraries=list(libraries),
                define_macros=list(define_macros),
                extra_compile_args=list(compile_arguments),
                extra_link_args=list(link_arguments),
            ),
            directives,
        )
        for path in modules
    ]


def own_headers(include_dirs: Iterable[str | Path]) -> list[str]:
    """List the headers in a backend's own folders.

    Being dependencies, those inside the project travel in its sdist.
    """
    suffixes = {".h", ".hpp", ".hh", ".inc", ".pxd"}
    return [str(path) for folder in include_dirs for path in sorted(Path(folder).rglob("*")) if path.suffix in suffixes]


def _with_settings(extension: Any, directives: Mapping[str, Any]) -> Any:
    """Return the extension with Cython's directives, its generated C outside the source folder."""
    extension.cython_directives = dict(directives)
    extension.cython_c_in_temp = True
    return extension
