"""Distributions with backends that exist as metadata and a few lines of source."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from dovetail.contract.abi_version import ABI_VERSION
from dovetail.discovery.registry import BackendRow, Registry
from dovetail.ground.errors import BackendError

SOURCE = Path(__file__).parents[2] / "src"
GOOD = """
from dovetail import BackendId, IBackend, Support

class Backend(IBackend):
    id = BackendId({id!r})

    def supports(self, layer, options, device):
        return Support.yes()

    def create_workload_factory(self, context, resources, options):
        raise NotImplementedError
"""


def manifest(id: str, **changes: Any) -> dict[str, Any]:
    return {"id": id, "abi": list(ABI_VERSION), "device": "cpu", "rank": 1, "description": f"about {id}", **changes}


class Site:
    """A folder on sys.path that distributions are put into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages: set[str] = set()

    def add(
        self,
        id: str,
        *,
        distribution: str | None = None,
        version: str = "1.0",
        package: str | None = None,
        source: str = GOOD,
        value: str | None = None,
        manifest: Any = None,
        group: str = "dovetail.backends",
    ) -> str:
        package = package or f"fake_{re.sub('[^a-z0-9]', '_', id.lower())}"
        distribution = distribution or package.replace("_", "-")
        self.packages.add(package)
        (self.folder / package).mkdir(exist_ok=True)
        (self.folder / package / "__init__.py").write_text(textwrap.dedent(source).replace("{id!r}", repr(id)))
        if manifest is not None:
            text = manifest if isinstance(manifest, str) else json.dumps(manifest)
            (self.folder / package / "dovetail-backend.json").write_text(text)
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{id} = {value or f'{package}:Backend'}\n")
        return package


def row_of(registry: Registry, id: str) -> BackendRow:
    (row,) = [row for row in registry.rows() if row.id == id]
    return row


def failure_of(registry: Registry, id: str) -> BackendError:
    with pytest.raises(BackendError) as caught:
        registry.get(id)
    return caught.value
