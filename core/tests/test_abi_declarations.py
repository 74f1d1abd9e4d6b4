"""Test that abi.h, abi.pxd and abi_layout.h spell out the structs of the protocol alike."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from dovetail import get_include

FOLDER = Path(get_include())
HEADER, LAYOUT, PXD = ((FOLDER / name).read_text() for name in ("abi.h", "abi_layout.h", "../abi.pxd"))

Field = tuple[str, str]
"""Name, and C declaration."""


def header_structs(text: str) -> dict[str, list[str]]:
    """Return the names of the fields of each struct of abi.h."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    bodies = {m[2]: m[1] for m in re.finditer(r"typedef struct\s*\w*\s*\{(.*?)\}\s*(\w+)\s*;", text, re.DOTALL)}
    return {name: [_name(field) for field in body.split(";") if field.strip()] for name, body in bodies.items()}


def header_constants(text: str) -> set[str]:
    """Return the constants of the enums of abi.h."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return {name for m in re.finditer(r"\benum\s*\{(.*?)\}", text, re.DOTALL) for name in re.findall(r"DOVETAIL_\w+", m[1])}


def layout_structs(text: str) -> dict[str, list[str]]:
    """Return the fields of each struct of fixed size whose offsets abi_layout.h fixes."""
    sized = re.findall(r"^DOVETAIL_SIZE\((\w+), \d+\);$", text, re.MULTILINE)
    fixed = re.findall(r"^DOVETAIL_AT\((\w+), (\w+), \d+\);$", text, re.MULTILINE)
    return {name: [field for struct, field in fixed if struct == name] for name in sized}


class Declarations:
    """What abi.pxd declares: structs, types of functions, constants."""

    def __init__(self, text: str) -> None:
        block = text.split('cdef extern from "abi.h" nogil:\n', 1)[1].split("\n\n\n", 1)[0]
        block = re.sub(r"\(\s*\n\s*", "(", block)
        block = re.sub(r",\s*\n\s*", ", ", block)
        self.structs: dict[str, list[Field]] = {}
        self.functions: dict[str, str] = {}
        self.constants: list[str] = []
        self.texts: list[str] = []
        inside: list[Field] = []
        for line in filter(None, map(str.rstrip, block.split("\n"))):
            depth, words = len(line) - len(line.lstrip()), line.strip().replace(" noexcept nogil", "")
            if depth == 8 and words.startswith("DOVETAIL_"):
                self.constants.append(words)
            elif depth == 8:
                inside.append((_name(words), words))
            elif words.startswith("ctypedef struct "):
                inside = self.structs.setdefault(words[len("ctypedef struct ") : -1], [])
            elif words.startswith("ctypedef "):
                self.functions[_name(words)] = words[len("ctypedef ") :]
            elif words.startswith("const int "):
                self.constants.append(words.split()[-1])
            elif words.startswith("const char *"):
                self.texts.append(words.split("*")[-1])
            else:
                assert words == "enum:", f"not understood: {line}"

    def problems(self) -> str:
        """Return what the compiler says against them, nothing if they are those of abi.h."""
        lines = ['#include "abi.h"', "#define SAME(a, ...) _Static_assert(__builtin_types_compatible_p(a, __VA_ARGS__), #a)"]
        for name, fields in self.structs.items():
            lines.append(f"struct mirror_{name} {{ {' '.join(f'{declaration};' for _, declaration in fields)} }};")
            lines.append(f'_Static_assert(sizeof(struct mirror_{name}) == sizeof({name}), "size of {name}");')
            for field, declaration in fields:
                lines.append(f"SAME(__typeof__((({name} *)0)->{field}), {_without(field, declaration)});")
                equal = f"offsetof(struct mirror_{name}, {field}) == offsetof({name}, {field})"
                lines.append(f'_Static_assert({equal}, "{name}.{field}");')
        lines += [f"SAME({name}, {_without(name, declaration)});" for name, declaration in self.functions.items()]
        lines += [f"enum {{ check_{name} = (int)({name}) }};" for name in self.constants]
        lines += [f"static const char check_{name}[] __attribute__((unused)) = {name};" for name in self.texts]
        command = ["gcc", "-std=gnu11", "-fsyntax-only", "-Wall", "-Werror", f"-I{FOLDER}", "-x", "c", "-"]
        return subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False).stderr


def _name(declaration: str) -> str:
    pointer = re.search(r"\(\*(\w+)\)\s*\(", declaration)
    if pointer:
        return pointer[1]
    found = re.search(r"(\w+)\s*(\[\d+\])?\s*$", declaration)
    assert found, declaration
    return found[1]


def _without(name: str, declaration: str) -> str:
    """Return the type of a declaration."""
    return re.sub(rf"\b{name}\b(?=\)\s*\(|\s*(\[\d+\])?$)", "", declaration, count=1)


NAMES = sorted(Declarations(PXD).structs)


def swapped(text: str, struct: str, first: int) -> str:
    """Exchange two neighbouring fields of a struct in abi.pxd."""
    lines = text.split("\n")
    begin = lines.index(f"    ctypedef struct {struct}:") + 1
    ends = [begin]
    while len(ends) <= first + 2:  # a field may stand on several lines
        at = ends[-1] + 1
        while lines[at].startswith("            "):
            at += 1
        ends.append(at)
    a, b, c = ends[first : first + 3]
    return "\n".join([*lines[:a], *lines[b:c], *lines[a:b], *lines[c:]])


def test_pxd_says_what_the_header_says() -> None:
    declared = Declarations(PXD)
    assert declared.problems() == ""
    assert {name: [field for field, _ in fields] for name, fields in declared.structs.items()} == header_structs(HEADER)
    assert header_constants(HEADER) <= set(declared.constants)
    assert len(declared.structs) >= 20
    assert {"DOVETAIL_ABI_MINOR", "DOVETAIL_FORKED"} <= set(declared.constants)


@pytest.mark.parametrize("struct", NAMES)
def test_swapped_fields_are_noticed(struct: str) -> None:
    count = len(Declarations(PXD).structs[struct])
    for first in {0, count // 2 - 1, count - 2}:
        assert Declarations(swapped(PXD, struct, max(first, 0))).problems() != "", (struct, first)


WIDTHS = {"size_t": "uint32_t", "int32_t": "int64_t", "uint32_t": "int32_t", "uint8_t": "uint16_t", "int64_t": "uint64_t"}


@pytest.mark.parametrize("struct", NAMES)
def test_another_width_is_noticed(struct: str) -> None:
    for field, declaration in Declarations(PXD).structs[struct]:
        kind = declaration.split()[0]
        if kind in WIDTHS and "(" not in declaration:
            head, tail = PXD.split(f"    ctypedef struct {struct}:\n", 1)
            changed = tail.replace(f"        {declaration}\n", f"        {declaration.replace(kind, WIDTHS[kind], 1)}\n", 1)
            assert changed != tail
            assert field in Declarations(f"{head}    ctypedef struct {struct}:\n{changed}").problems()
            return


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        DOVETAIL_FORKED\n", "        DOVETAIL_FORKED\n        DOVETAIL_ROSE\n"),
        ("    const int DOVETAIL_ABI_MINOR\n", "    const int DOVETAIL_ABI_PATCH\n"),
        ("const char *DOVETAIL_QUEUES_CAPSULE", "const char *DOVETAIL_QUEUE_CAPSULE"),
        ("        char text[1024]\n", "        char text[1023]\n"),
        ("        int64_t offset\n", ""),
        ("(*dovetail_release)(void *state)", "(*dovetail_release)(int state)"),
        ("int (*queue_wait)(void *queue, int64_t deadline)", "int (*queue_wait)(void *queue, int32_t deadline)"),
        ("void (*close)(void *state)", "int (*close)(void *state)"),
    ],
)
def test_other_mistakes_are_noticed(old: str, new: str) -> None:
    assert PXD.count(old) >= 1
    assert Declarations(PXD.replace(old, new, 1)).problems() != ""


def test_the_layout_fixes_every_field() -> None:
    assert layout_structs(LAYOUT) == header_structs(HEADER)


def test_a_field_without_a_line_is_noticed() -> None:
    lines = LAYOUT.split("\n")
    fixed = [i for i, line in enumerate(lines) if re.match(r"DOVETAIL_(AT|SIZE)\(dovetail", line)]
    assert len(fixed) > 150
    for i in fixed:
        assert layout_structs("\n".join(lines[:i] + lines[i + 1 :])) != header_structs(HEADER), lines[i]


def test_a_new_field_is_noticed() -> None:
    grown = HEADER.replace("\n} dovetail_workload;", "\n    int (*prefetch)(void *state, int32_t which);\n} dovetail_workload;")
    assert header_structs(grown)["dovetail_workload"][-1] == "prefetch"
    assert layout_structs(LAYOUT) != header_structs(grown)
