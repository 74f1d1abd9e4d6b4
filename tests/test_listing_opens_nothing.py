"""Check by audit events, in a fresh process, that listing backends reads only metadata."""

import json
import subprocess
import sys
from pathlib import Path

from listing import install

PROGRAM = """
import importlib_metadata, json, logging, sys, dovetail.discovery.registry, dovetail.discovery.verdicts
sys.path.insert(0, {folder!r})
opened, imported = [], []
def watch(event, arguments):
    if event == "open":
        opened.append(str(arguments[0]))
    elif event in ("import", "ctypes.dlopen"):
        imported.append(str(arguments[0]))
sys.addaudithook(watch)
rows = dovetail.discovery.registry.Registry().rows()
names = [row.id for row in rows if row.id.startswith("Listed")]
print(json.dumps([names, [path for path in opened if path.startswith({folder!r})], imported, sorted(sys.modules)]))
"""


def test_twenty_backends_are_listed_without_importing_or_opening_any(tmp_path):
    install(tmp_path, 20)
    for number in range(20):
        (tmp_path / f"listed_{number:02}" / "core.so").write_bytes(b"")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(folder=str(tmp_path))], check=True, capture_output=True, text=True
    )
    names, opened, imported, modules = json.loads(done.stdout)
    assert names == [f"Listed{number:02}" for number in range(20)]
    assert {Path(path).name for path in opened} == {"METADATA", "entry_points.txt", "dovetail-backend.json"}
    assert not [name for name in [*imported, *modules] if name.startswith("listed_")]
    assert not [name for name in imported if name.endswith(".so")]
    assert "numpy" not in modules
