"""The fixtures with distributions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.distributions import Site


@pytest.fixture
def make_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Site]]:
    sites: list[Site] = []

    def make(name: str = "site") -> Site:
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.syspath_prepend(str(folder))
        sites.append(Site(folder))
        return sites[-1]

    yield make
    for package in {package for site in sites for package in site.packages}:
        for module in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
            del sys.modules[module]


@pytest.fixture
def site(make_site: Callable[[], Site]) -> Site:
    return make_site()
