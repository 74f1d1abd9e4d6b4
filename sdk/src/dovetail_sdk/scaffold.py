"""Make the project of a new backend: a template, with its names replaced in paths and contents.

The templates are projects that build and pass as they stand, of a vendor called Acme. Every
spelling of that name is replaced; one that is not known here stops the scaffold.
"""

from __future__ import annotations

import json
import keyword
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from unicodedata import normalize

from dovetail import BackendId, ErrorCode, OptionError
from dovetail.discovery.registry import default_registry

from .bundled import read_templates

_PROJECT = PurePosixPath("pyproject.toml")
_MANIFEST = "dovetail-backend.json"
_VENDOR = "acme"
_PREFIX = "dovetail-"
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")  # PEP 508

Files = Mapping[PurePosixPath, bytes]


@dataclass(frozen=True)
class Names:
    """What a backend is called.

    Attributes:
        distribution: What pip installs, such as "dovetail-acme-npu".
        backend_id: What users write, such as "AcmeNpu".
    """

    distribution: str
    backend_id: str

    @property
    def package(self) -> str:
        """Import name."""
        return re.sub(r"[-_.]+", "_", self.distribution).lower()

    @property
    def words(self) -> list[str]:
        """Words of the distribution's name, in lower case, without dovetail's."""
        return [word for word in re.split(r"[-_.]+", self.distribution.lower().removeprefix(_PREFIX)) if word]

    def vendor(self, kind: list[str]) -> list[str]:
        """Return the words that say whose it is; `kind` are those of the template's name."""
        is_same_kind = kind and self.words[-len(kind) :] == kind and len(self.words) > len(kind)
        return self.words[: -len(kind)] if is_same_kind else self.words


@dataclass(frozen=True)
class Template:
    """A project to start from.

    Attributes:
        name: Name of its folder.
        names: What its backend is called.
        files: Content by path.
    """

    name: str
    names: Names
    files: Files

    def render(self, names: Names) -> dict[PurePosixPath, bytes]:
        """Return the files of a project whose backend is called so.

        Raises:
            RuntimeError: The template has a spelling of its vendor's name that is not known here.
        """
        replaced = self._spellings(names)
        pattern = re.compile("|".join(re.escape(old) for old in sorted(replaced, key=len, reverse=True)))

        def renamed(text: str) -> str:
            for line in pattern.sub(" ", text).splitlines():
                if _VENDOR in line.lower():
                    raise RuntimeError(f"template {self.name!r}: it is not known how to rename {line.strip()!r}")
            return pattern.sub(lambda match: replaced[match[0]], text)

        return {
            PurePosixPath(*map(renamed, path.parts)): content if b"\0" in content else renamed(content.decode()).encode()
            for path, content in self.files.items()
        }

    def _spellings(self, names: Names) -> dict[str, str]:
        kind = self.names.words[1:]
        vendor = names.vendor(kind)
        small, snake = "_".join(vendor), "_".join(names.words)
        template_snake = "_".join(self.names.words)
        return {
            self.names.distribution: names.distribution,
            self.names.package: names.package,
            template_snake: snake,
            template_snake.upper(): snake.upper(),
            _VENDOR: small,
            _VENDOR.upper(): small.upper(),
            _VENDOR.capitalize(): "".join(map(str.capitalize, vendor)),
            self.names.backend_id: names.backend_id,
        }

    def default_id(self, distribution: str) -> str:
        """Return an id made from the name of a distribution, as the template's is from its own."""
        vendor = Names(distribution, "").vendor(self.names.words[1:])
        return self.names.backend_id.replace(_VENDOR.capitalize(), "".join(map(str.capitalize, vendor)))


def templates() -> dict[str, Template]:
    """Return the templates, by name.

    Raises:
        FileNotFoundError: The installation is incomplete.
    """
    found: dict[str, dict[PurePosixPath, bytes]] = {}
    for path, content in read_templates().items():
        found.setdefault(path.parts[0], {})[PurePosixPath(*path.parts[1:])] = content
    return {name: Template(name, _names_in(files), files) for name, files in found.items() if _PROJECT in files}


def _names_in(files: Files) -> Names:
    project = tomllib.loads(files[_PROJECT].decode())["project"]
    (manifest,) = [content for path, content in files.items() if path.name == _MANIFEST]
    return Names(project["name"], json.loads(manifest)["id"])


def build_requirements(files: Files) -> list[str]:
    """Return what a project is built with."""
    required: list[str] = tomllib.loads(files[_PROJECT].decode())["build-system"]["requires"]
    return required


def check_names(distribution: str, backend_id: str) -> Names:
    """Return the names of a new backend.

    Raises:
        OptionError: The distribution cannot be called so, its package would hide another, or the
            id is that of an installed backend.
        BackendError: `BACKEND_ID_INVALID`.
    """
    if not _NAME.fullmatch(distribution):
        raise _refused(
            f"{distribution!r} is not the name of a distribution",
            f"it has letters and digits of ASCII, with '-' in between (PEP 508), such as {_like(distribution)!r}",
        )
    names = Names(distribution, BackendId(backend_id))
    package = names.package
    example = f"'{_PREFIX}initech'"
    if not package.isidentifier() or keyword.iskeyword(package) or not names.words[0][0].isalpha():
        raise _refused(f"{distribution!r} cannot be imported as {package!r}", f"begin with a letter, such as {example}")
    if package in sys.stdlib_module_names or _is_taken(package, distribution):
        hint = f"choose another name, such as {example}, or uninstall what has this one"
        raise _refused(f"{distribution!r} would replace what is installed", hint)
    for row in default_registry().rows():
        if row.id.lower() == backend_id.lower():
            raise _refused(
                f"the backend id {backend_id!r} is taken: {row.id} is installed ({row.source})",
                "two backends of one id hide each other; choose another by --id, or uninstall that one",
            )
    return names


def _like(distribution: str) -> str:
    """Return a name that a distribution may have and that is made of the words of another."""
    plain = normalize("NFKD", distribution).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", plain.removeprefix("dovetail"))
    return _PREFIX + ("-".join(words) if words and words[0][0].isalpha() else "initech")


def _is_taken(package: str, distribution: str) -> bool:
    """Tell whether a distribution of this name is installed, or a package that it would hide."""
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return find_spec(package) is not None
    return True


def write_project(files: Files, folder: Path) -> None:
    """Write a project into a folder that is not there yet, or is empty.

    Raises:
        OptionError: Something is there.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise _refused(f"{folder} is there already, and nothing is ever overwritten", "name a new or an empty folder as DEST")
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with (folder / path).open("xb") as file:
            file.write(content)


def _refused(text: str, hint: str) -> OptionError:
    return OptionError(text, code=ErrorCode.OPTION_INVALID, hint=hint)
