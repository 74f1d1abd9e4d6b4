"""What building a backend adds to the commands of setuptools."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, ClassVar

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

from dovetail.ground.compilers import require_compilers

from .manifests import Manifest
from .table_library import TableLibrary, build_library


class Build(build):
    """Say what the build lacks before anything is copied."""

    manifest: ClassVar[Manifest]

    def run(self) -> None:
        require_compilers(self.distribution)
        super().run()


class BuildPackage(build_py):
    """Write the manifest, with the ABI that was built for, into the wheel.

    An editable installation reads the source's.
    """

    manifest: ClassVar[Manifest]

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = self._target()
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self.manifest.text(self.distribution.get_version()), "utf-8")

    def _target(self) -> Path:
        return Path(self.build_lib, *self.manifest.package.split("."), self.manifest.path.name)

    def get_source_files(self) -> list[str]:
        """Have the manifest in every sdist."""
        return list(dict.fromkeys([*super().get_source_files(), self.manifest.path.as_posix()]))

    def get_outputs(self, include_bytecode: int = True) -> list[str]:
        outputs: list[str] = super().get_outputs(include_bytecode)
        return outputs if self.editable_mode else list(dict.fromkeys([*outputs, str(self._target())]))


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class BuildModules(build_ext):
    """Build table libraries, and put the manifest into binaries for a searched folder."""

    manifest: ClassVar[Manifest]
    source_arguments: ClassVar[dict[Path, list[str]]] = {}
    """Flags of single files, in place of those of their extension."""
    parallel: Any

    def run(self) -> None:
        require_compilers(self.distribution)
        super().run()

    def build_extensions(self) -> None:
        """Compile as many files at a time as there are cores, or N with ``--parallel N``."""
        jobs: int = self.parallel or _usable_cores()
        self.parallel = jobs
        compile_all, compile_one = self.compiler.compile, self.compiler._compile
        begun = threading.local()  # extensions are built in threads of their own, which wait for their files
        compiling = ThreadPoolExecutor(jobs)
        known: dict[tuple[Any, ...], Future[Any]] = {}  # what extensions share is written once, never below a linker
        finding = threading.Lock()

        def begin(obj: str, source: str, extension: str, includes: Any, flags: Any, settings: Any) -> None:
            own = self.source_arguments.get(Path(source), flags)
            key = (obj, tuple(includes), tuple(own), tuple(settings))
            with finding:
                if key not in known:
                    known[key] = compiling.submit(compile_one, obj, source, extension, includes, own, settings)
            begun.files.append(known[key])

        def compile_together(*arguments: Any, **keywords: Any) -> Any:
            begun.files = []
            objects = compile_all(*arguments, **keywords)
            wait(begun.files)
            for file in begun.files:
                file.result()
            return objects

        with compiling:
            self.compiler.compile, self.compiler._compile = compile_together, begin
            super().build_extensions()

    def get_ext_filename(self, fullname: str) -> str:
        extension = self.ext_map.get(fullname)
        if isinstance(extension, TableLibrary):
            return str(Path(*fullname.split(".")[:-1], extension.file_name))
        return str(super().get_ext_filename(fullname))

    def build_extension(self, ext: Any) -> None:
        version = self.distribution.get_version()
        if isinstance(ext, TableLibrary):
            path = self.get_ext_fullpath(ext.name)
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            build_library(ext, self.compiler, path, self.build_temp, version, self.manifest.section(version))
            return
        section = self.manifest.section(version, ext.name)
        if section is not None and sys.platform.startswith("linux"):
            generated = Path(self.build_temp, f"{ext.name}.manifest.c")
            generated.parent.mkdir(parents=True, exist_ok=True)
            generated.write_text(section, "utf-8")
            ext.sources.append(str(generated))
        super().build_extension(ext)


class BuildWheel(bdist_wheel):
    """Tags a wheel of a library, without a line of compiled Python, as one for every Python."""

    manifest: ClassVar[Manifest]

    def get_tag(self) -> tuple[str, str, str]:
        python, abi, platform = super().get_tag()
        modules = self.distribution.ext_modules or []
        if modules and all(isinstance(module, TableLibrary) for module in modules):
            return "py3", "none", platform
        return python, abi, platform
