"""Take along what lies above the sdk's folder: the templates of backends and the demo's model."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

sys.path.insert(0, str(Path(__file__).parent / "src" / "dovetail_sdk"))
from bundled import bundle


class BuildPackage(build_py):
    """Builds the package with them in it; an editable installation reads the checkout."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            bundle(Path(self.build_lib, "dovetail_sdk"))


class SourceArchive(sdist):
    """Builds an sdist with them in it, from which a wheel can be built anywhere."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        bundle(Path(base_dir, "src", "dovetail_sdk"))


setup(cmdclass={"build_py": BuildPackage, "sdist": SourceArchive})
