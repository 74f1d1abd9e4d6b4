"""The modules of the example server, which is no package, as fixtures."""

import importlib
import sys

import pytest

WHY = "the server's requirements are not installed: pip install --group serve"


def module_of_server(name):
    @pytest.fixture(name=name)
    def module(root, monkeypatch):
        monkeypatch.syspath_prepend(root / "examples" / "server")
        yield importlib.import_module(name)
        for imported in (name, "problems"):
            sys.modules.pop(imported, None)

    return module
