"""Build a backend: one call in the vendor's `setup.py`, whether its kernels are Cython or C++ behind the C table.

A backend in Cython has this `setup.py`, and every `.pyx` below `src/dovetail_acme` becomes an extension module::

    from dovetail.building import setup_backend

    setup_backend("dovetail_acme")

A backend without Python has this one, and the sources become the library that its manifest names::

    setup_backend("dovetail_acme_npu", library_sources=["csrc/*.cpp"])

Names, licence and entry point stand in `pyproject.toml`. It says ``dynamic = ["dependencies"]``: which versions of the core the
binary runs on follows from the headers that it was built with, so the build writes them into the wheel's requirements, and the
ABI into the wheel's manifest.

This package must import on a machine where the core's own extensions are not built; the core's `setup.py` imports it by path.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .cython_modules import COMPILE_ARGUMENTS, COMPILER_DIRECTIVES, cython_settings, extensions
from .headers import get_include

__all__ = ["COMPILER_DIRECTIVES", "COMPILE_ARGUMENTS", "cython_settings", "extensions", "get_include", "setup_backend"]


def setup_backend(
    package: str,
    *,
    folder: str | Path = "src",
    library_sources: Iterable[str] = (),
    sources: Iterable[str | Path] = (),
    module_sources: Mapping[str, Sequence[str | Path]] | None = None,
    source_arguments: Mapping[str, Sequence[str]] | None = None,
    include_dirs: Iterable[str | Path] = (),
    libraries: Sequence[str] = (),
    define_macros: Sequence[tuple[str, str | None]] = (),
    compile_arguments: Sequence[str] | None = None,
    link_arguments: Sequence[str] = (),
    requirements: Sequence[str] = (),
    **keywords: Any,
) -> None:
    """Call `setuptools.setup` for a package that holds backends, described by the manifest in it.

    Args:
        package: Import name.
        folder: Folder that holds the package.
        library_sources: C and C++ files, or patterns of them, of the library that exports the C table. It uses nothing of
            Python, so that one wheel serves every version. In them `DOVETAIL_BACKEND_ID` and `DOVETAIL_BACKEND_VERSION` are
            what manifest and `pyproject.toml` say.
        sources: C or C++ files linked into every extension module.
        module_sources: Further C or C++ files of single extension modules, by the module's full name.
        source_arguments: Flags of the compiler for single files, by path, in place of `compile_arguments`: one file compiled
            for AVX2, another for AVX-512, and which of them runs is decided at run time.
        include_dirs: Further folders of headers and `.pxd` files; the headers among them travel in the sdist.
        libraries: What to link with, such as the driver's library.
        define_macros: Macros as (name, value).
        compile_arguments: Flags of the compiler, in place of dovetail's.
        link_arguments: Further flags of the linker.
        requirements: What the wheel requires besides the core.
        keywords: Handed to `setuptools.setup`.

    Raises:
        FileNotFoundError: There is no manifest, or nothing to compile.
        ValueError: The manifest is malformed, or `pyproject.toml` leaves no room for the requirements.
    """
    from setuptools import setup

    from ..contract.abi_version import core_requirement
    from .commands import BuildModules, BuildPackage, BuildWheel
    from .manifests import Manifest
    from .table_library import table_library

    manifest = Manifest(package, Path(folder))
    _require_dynamic_dependencies()
    patterns = list(library_sources)
    if patterns:
        library = table_library(
            manifest,
            patterns,
            include_dirs=include_dirs,
            libraries=libraries,
            define_macros=define_macros,
            compile_arguments=compile_arguments,
            link_arguments=link_arguments,
        )
        modules = [library]
    else:
        modules = extensions(
            package,
            folder=folder,
            sources=sources,
            module_sources=module_sources,
            include_dirs=include_dirs,
            libraries=libraries,
            define_macros=define_macros,
            compile_arguments=COMPILE_ARGUMENTS if compile_arguments is None else compile_arguments,
            link_arguments=link_arguments,
        )
    arguments = {Path(path): list(flags) for path, flags in (source_arguments or {}).items()}
    BuildModules.source_arguments = arguments
    commands: dict[str, Any] = {"build_py": BuildPackage, "build_ext": BuildModules, "bdist_wheel": BuildWheel}
    keywords["cmdclass"] = commands | keywords.get("cmdclass", {})
    keywords["ext_modules"] = [*modules, *keywords.get("ext_modules", ())]
    keywords["install_requires"] = [core_requirement(), *requirements, *keywords.get("install_requires", ())]
    for command in commands.values():
        command.manifest = manifest
    setup(**keywords)


def _require_dynamic_dependencies() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8")).get("project", {})
    if "dependencies" in project or "dependencies" not in project.get("dynamic", ()):
        raise ValueError(
            'pyproject.toml must say dynamic = ["dependencies"] and have no dependencies of its own: the build writes the '
            "versions of dovetail-core that the binary runs on; give others to setup_backend(requirements=[...])"
        )
