"""What comes with the sdk besides code: the templates of backends, and the model of the demo.

In a checkout they lie at its root; in a wheel beside this module, the templates as one archive. The
sdk's `setup.py` puts them there and imports this module by path: it uses nothing but the standard
library.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parents[2]
_ARCHIVE = "templates.zip"
_MODEL = "digits.onnx"
_PRODUCTS = ("build", "dist", "*.egg-info", "__pycache__", "*.so", "*.pyd", "*.o", "*.py[co]", ".*")
_OLDEST = (1980, 1, 1, 0, 0, 0)  # so that the archive has the same bytes if the files have


def read_templates() -> dict[PurePosixPath, bytes]:
    """Return the content of each template's files by path, which begins with the template's name.

    Raises:
        FileNotFoundError: The installation is incomplete.
    """
    archive = _PACKAGE / _ARCHIVE
    if archive.is_file():
        with zipfile.ZipFile(archive) as opened:
            return {PurePosixPath(name): opened.read(name) for name in opened.namelist()}
    folder = _CHECKOUT / "templates"
    if not folder.is_dir():
        raise FileNotFoundError(f"neither {archive} nor {folder} is there: install dovetail-sdk anew")
    return {PurePosixPath(path.relative_to(folder).as_posix()): path.read_bytes() for path in _sources(folder)}


def demo_model() -> Path:
    """Return the path of the demo's model, which recognises handwritten digits.

    Raises:
        FileNotFoundError: The installation is incomplete.
    """
    for path in (_PACKAGE / _MODEL, _CHECKOUT / "examples" / "digits" / _MODEL):
        if path.is_file():
            return path
    raise FileNotFoundError(f"there is no {_MODEL} in {_PACKAGE}: install dovetail-sdk anew")


def bundle(package: Path) -> None:
    """Put all of it into the folder of a package that is being built."""
    content = archived(read_templates())
    model = demo_model().read_bytes()
    (package / _ARCHIVE).write_bytes(content)
    (package / _MODEL).write_bytes(model)


def archived(files: Mapping[PurePosixPath, bytes]) -> bytes:
    """Return the archive of these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(path.as_posix(), _OLDEST), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _sources(folder: Path) -> Iterator[Path]:
    """List the files below a folder that no build left there."""
    for path in sorted(folder.iterdir()):
        if any(PurePosixPath(path.name).match(product) for product in _PRODUCTS) or path.is_symlink():
            continue
        if path.is_dir():
            yield from _sources(path)
        else:
            yield path
