"""Import a locked backend's modules from the files that the lock lists, not from byte code caches.

Python takes the byte code in `__pycache__` for the source beside it if a time and a size written
there agree, or without looking at the source at all; either can be forged, and neither is in a lock
file, since every machine writes its own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType


def import_from_sources(package: str) -> None:
    """Let this process import a top-level module and what lies below from sources alone.

    The module may be a package. Idempotent.
    """
    for finder in sys.meta_path:
        if isinstance(finder, _LockedFinder):
            finder.packages.add(package)
            return
    sys.meta_path.insert(0, _LockedFinder(package))


class _LockedFinder:
    """Find modules of some packages as Python does, and have their byte code made anew."""

    def __init__(self, package: str) -> None:
        self.packages = {package}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self.packages:
            return None
        following = sys.meta_path[sys.meta_path.index(self) + 1 :]
        for finder in following:  # such as the one of an editable installation
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                break
        else:
            return None
        if type(spec.loader) is SourceFileLoader:
            spec.loader = _SourceLoader(spec.loader.name, spec.loader.path)
            spec.cached = None
        return spec


class _SourceLoader(SourceFileLoader):
    """Compile a module each time that it is imported."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code
