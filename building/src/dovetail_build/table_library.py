"""Build the library that exports a backend's C table: no Python in it, nothing else exported."""

from __future__ import annotations

import glob
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from setuptools import Extension

from dovetail.contract.abi_version import get_include

from .cython_modules import own_headers
from .headers import headers
from .manifests import Manifest

# As for Cython modules: the same bits on every machine, a small file. Hidden: two vendors' classes
# of one name must not mix.
COMPILE_ARGUMENTS = (
    "-O3",
    "-g0",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-pthread",
)
CPP_ARGUMENTS = ("-std=c++17", "-fvisibility-inlines-hidden")
C_ARGUMENTS = ("-std=gnu11",)

# Templates of the standard library are exported whatever the visibility; a list of exports leaves
# them out.
EXPORTS = "{ global: dovetail_open_backend_v*; local: *; };\n"


class TableLibrary(Extension):
    """A shared library in a package.

    Setuptools sees an extension module, so that the wheel is for one platform.

    Attributes:
        file_name: Name of the file.
    """

    file_name: str = ""


def table_library(
    manifest: Manifest,
    patterns: Iterable[str],
    *,
    include_dirs: Iterable[str | Path],
    libraries: Sequence[str],
    define_macros: Sequence[tuple[str, str | None]],
    compile_arguments: Sequence[str] | None,
    link_arguments: Sequence[str],
) -> TableLibrary:
    """Describe the library of a package.

    Raises:
        FileNotFoundError: A pattern matches no file.
        ValueError: The manifest names no library.
    """
    found: list[str] = []
    for pattern in patterns:
        matches = sorted(glob.glob(pattern, recursive=True))
        if not matches:
            raise FileNotFoundError(f"no file matches {pattern!r}: is the build run from the project's own folder?")
        found += [match for match in matches if match not in found]
    folders = list(dict.fromkeys([*map(str, include_dirs), *(str(Path(source).parent) for source in found)]))
    file_name = manifest.library
    library = TableLibrary(
        f"{manifest.package}.{file_name.partition('.')[0]}",
        found,
        include_dirs=[*folders, get_include()],
        depends=[*headers(), *own_headers(folders), str(manifest.path)],
        libraries=list(libraries),
        define_macros=[("DOVETAIL_BACKEND_ID", f'"{manifest.entries[0]["id"]}"'), *define_macros],
        extra_compile_args=list(COMPILE_ARGUMENTS if compile_arguments is None else compile_arguments),
        extra_link_args=["-pthread", *link_arguments],
    )
    library.file_name = file_name
    return library


def build_library(library: TableLibrary, compiler: Any, path: str, scratch: str, version: str, section: str | None) -> None:
    """Compile and link.

    Args:
        library: What to build.
        compiler: Of distutils.
        path: File to write.
        scratch: Folder for objects and generated files.
        version: Of the distribution.
        section: C source that holds the manifest.

    Raises:
        setuptools.errors.CompileError: A source does not compile.
        setuptools.errors.LinkError: It does not link; a symbol that is nowhere defined is such an
            error.
    """
    folder = Path(scratch, library.file_name)
    folder.mkdir(parents=True, exist_ok=True)
    generated = folder / "manifest_section.c"
    generated.write_text(section or "", "utf-8")
    macros = [*library.define_macros, ("DOVETAIL_BACKEND_VERSION", f'"{version}"')]
    objects = []
    for source in (*library.sources, str(generated)):
        language = C_ARGUMENTS if source.endswith(".c") else CPP_ARGUMENTS
        objects += compiler.compile(
            [source],
            output_dir=scratch,
            macros=macros,
            include_dirs=library.include_dirs,
            extra_postargs=[*language, *library.extra_compile_args],
            depends=library.depends,
        )
    arguments = list(library.extra_link_args)
    if sys.platform.startswith("linux"):
        exports = folder / "exports.map"
        exports.write_text(EXPORTS, "utf-8")
        arguments += [f"-Wl,--version-script={exports}", "-Wl,--no-undefined", "-Wl,--as-needed"]
    is_c = all(source.endswith(".c") for source in library.sources)
    compiler.link_shared_object(
        objects,
        path,
        libraries=library.libraries,
        library_dirs=library.library_dirs,
        runtime_library_dirs=library.runtime_library_dirs,
        extra_postargs=arguments,
        build_temp=scratch,
        target_lang="c" if is_c else "c++",
    )
