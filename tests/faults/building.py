"""Compile the libraries that fail, and forge headers of others."""

from __future__ import annotations

import json
import struct
import subprocess
import sysconfig
from functools import cache
from pathlib import Path

from dovetail import get_include
from dovetail.contract.abi_version import ABI_VERSION

SOURCE = Path(__file__).with_name("fault_module.c")


def manifest(id, **changes):
    return {"id": id, "abi": list(ABI_VERSION), "device": "cpu", "rank": 1, "description": f"about {id}", **changes}


def compile_c(output, *arguments):
    """Compile C to a shared library."""
    command = ["gcc", "-shared", "-fPIC", "-O1", "-w", "-o", str(output), *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Path(output)


def extension(output, id, fault=None, *arguments, name=None, content="default"):
    """Build the module of `fault_module.c` with the manifest `content`; None: without one."""
    name = name or Path(output).name.partition(".")[0]
    if content == "default":
        content = manifest(id, module=name)
    defines = [f"-DID={id}", f"-DNAME={name}", f"-I{sysconfig.get_path('include')}"]
    if content is not None:
        text = content if isinstance(content, str) else json.dumps(content)
        defines.append("-DMANIFEST=" + json.dumps(text))
    if fault is not None:
        defines.append(f"-DFAULT_{fault}")
    return compile_c(output, *defines, SOURCE, *arguments)


def table(output, id, fault=None, *, content="default"):
    """Build the library of `fault_table.c`, a backend without Python."""
    content = manifest(id) if content == "default" else content
    defines = [f"-DID={id}", f"-I{get_include()}"]
    if content is not None:
        defines.append("-DMANIFEST=" + json.dumps(json.dumps(content)))
    if fault is not None:
        defines.append(f"-DFAULT_{fault}")
    return compile_c(output, *defines, SOURCE.with_name("fault_table.c"))


@cache
def header(elf_class=2, order="<", machine=62, kind=3):
    """Return an ELF file with a header and one segment that covers it, and nothing else."""
    bits = {1: ("HHIIIIIHHHHHH", "IIIIIIII", 52, 32), 2: ("HHIQQQIHHHHHH", "IIQQQQQQ", 64, 56)}[elf_class]
    ident = b"\x7fELF" + bytes([elf_class, {"<": 1, ">": 2}[order], 1, 0]) + bytes(8)
    size = bits[2] + bits[3]
    main = struct.pack(order + bits[0], kind, machine, 1, 0, bits[2], 0, 0, bits[2], bits[3], 1, 0, 0, 0)
    fields = (1, 0, 0, 0, size, size, 5, 4096) if elf_class == 1 else (1, 5, 0, 0, 0, size, size, 4096)
    return ident + main + struct.pack(order + bits[1], *fields)
