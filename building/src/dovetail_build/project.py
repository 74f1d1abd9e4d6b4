"""What a vendor's project says, and what setuptools is told about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dovetail.contract.abi_version import core_requirement

from .commands import Build, BuildModules, BuildPackage, BuildWheel
from .cython_modules import COMPILE_ARGUMENTS, PYTHON_SEMANTICS, extensions
from .manifests import Manifest
from .project_file import pyproject
from .table_library import table_library

_GROUP = "dovetail.backends"


def setup_backend(package: str, **words: Any) -> None:
    """Call `setuptools.setup` for a package that holds backends, described by the manifest in it.

    Args:
        package: Import name.
        words: As for `keywords`; others are handed to `setuptools.setup`.

    Raises:
        FileNotFoundError: There is no manifest, or nothing matches a pattern.
        ValueError: The manifest is malformed, or `pyproject.toml` leaves no room for the
            requirements.
    """
    from setuptools import setup

    own = {name: words.pop(name) for name in list(words) if name in _WORDS}
    wanted = keywords(package, **own)
    wanted["cmdclass"] |= words.pop("cmdclass", {})
    wanted["ext_modules"] += words.pop("ext_modules", ())
    wanted["install_requires"] += words.pop("install_requires", ())
    setup(**wanted, **words)


def keywords(
    package: str,
    *,
    folder: str | Path = "src",
    entry_point: str = "",
    library_sources: Iterable[str] = (),
    sources: Iterable[str | Path] = (),
    module_sources: Mapping[str, Sequence[str | Path]] | None = None,
    source_arguments: Mapping[str, Sequence[str]] | None = None,
    include_dirs: Iterable[str | Path] = (),
    libraries: Sequence[str] = (),
    define_macros: Sequence[tuple[str, str | None]] = (),
    compile_arguments: Sequence[str] | None = None,
    link_arguments: Sequence[str] = (),
    directives: Mapping[str, Any] = PYTHON_SEMANTICS,
    requirements: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what `setuptools.setup` is called with.

    Args:
        package: Import name.
        folder: Folder that holds the package.
        entry_point: The `IBackend` in the package, as "module:Class"; where `pyproject.toml` states
            it, it may be left out.
        library_sources: C and C++ files, or patterns of them, of the library that exports the C
            table. It uses nothing of Python, so that one wheel serves every version. In them
            `DOVETAIL_BACKEND_ID` and `DOVETAIL_BACKEND_VERSION` are what manifest and
            `pyproject.toml` say.
        sources: C or C++ files linked into every extension module.
        module_sources: Further C or C++ files of single extension modules, by the module's full
            name.
        source_arguments: Flags of the compiler for single files, by path, in place of
            `compile_arguments`: one file compiled for AVX2, another for AVX-512, and which of them
            runs is decided at run time.
        include_dirs: Further folders of headers and `.pxd` files; the headers among them travel in
            the sdist.
        libraries: What to link with, such as the driver's library.
        define_macros: Macros as (name, value).
        compile_arguments: Flags of the compiler, in place of dovetail's.
        link_arguments: Further flags of the linker.
        directives: Of Cython; Python's semantics unless a package says otherwise.
        requirements: What the wheel requires besides the core.
    """
    manifest = Manifest(package, Path(folder))
    project = pyproject().get("project", {})
    _require_dynamic_dependencies(project)
    patterns = list(library_sources)
    modules: list[Any]
    if patterns:
        modules = [
            table_library(
                manifest,
                patterns,
                include_dirs=include_dirs,
                libraries=libraries,
                define_macros=define_macros,
                compile_arguments=compile_arguments,
                link_arguments=link_arguments,
            )
        ]
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
            directives=directives,
        )
    BuildModules.source_arguments = {Path(path): list(flags) for path, flags in (source_arguments or {}).items()}
    commands: dict[str, Any] = {
        "build": Build,
        "build_py": BuildPackage,
        "build_ext": BuildModules,
        "bdist_wheel": BuildWheel,
    }
    for command in commands.values():
        command.manifest = manifest
    wanted = {
        "cmdclass": commands,
        "ext_modules": modules,
        "install_requires": [core_requirement(), *requirements],
    }
    if "entry-points" in project.get("dynamic", ()):
        wanted["entry_points"] = {_GROUP: [f"{manifest.id} = {entry_point or package}"]}
    return wanted


_WORDS = frozenset(keywords.__kwdefaults__ or ())


def _require_dynamic_dependencies(project: Mapping[str, Any]) -> None:
    if "dependencies" in project or "dependencies" not in project.get("dynamic", ()):
        raise ValueError(
            'pyproject.toml must say dynamic = ["dependencies"] and have no dependencies of its own: the build writes the '
            "versions of dovetail-core that the binary runs on; give others as requirements"
        )
