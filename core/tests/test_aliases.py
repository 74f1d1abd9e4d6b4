"""Test what a workload declares: what cannot be true is refused when it is taken.

The error names backend, layer and what is wrong.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dovetail import Network, Runtime
from dovetail.contract.abi_version import ABI_VERSION
from dovetail.contract.backend_id import BackendId
from dovetail.contract.interfaces import IBackend, IBackendContext, IWorkloadFactory, Support
from dovetail.graph.descriptor import Descriptor, Infos, descriptor_class
from dovetail.graph.layer import Layer
from dovetail.graph.tensor import TensorInfo
from dovetail.ground.errors import BackendError, ErrorCode, LimitError
from dovetail.runtime.aliases import Alias, Extent, Relation, gap_in, problem_with

VIEW, IN_PLACE, PART = Relation.VIEW, Relation.IN_PLACE, Relation.PART
ELIDABLE = 2
NAME = b"dovetail.workload.v0"
FUNCTIONS: list[Any] = []  # callbacks must outlive the workloads; these are a few per test


EXECUTE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class CWorkload(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t), ("abi_major", ctypes.c_uint32), ("abi_minor", ctypes.c_uint32), ("flags", ctypes.c_uint32),
        ("concurrency", ctypes.c_uint32), ("state", ctypes.c_void_p), ("execute", EXECUTE), ("release", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p), ("create_run", ctypes.c_void_p), ("release_run", ctypes.c_void_p),
        ("aliases", ctypes.c_void_p), ("n_aliases", ctypes.c_int32), ("reserved", ctypes.c_int32),
        ("private_bytes", ctypes.c_size_t),
    ]  # fmt: skip


class CAlias(ctypes.Structure):
    _fields_ = [
        ("relation", ctypes.c_int32), ("output", ctypes.c_int32), ("input", ctypes.c_int32), ("reserved", ctypes.c_int32),
        ("offset", ctypes.c_int64),
    ]  # fmt: skip


WORKSPACE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)  # fmt: skip


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
allocate = ctypes.pythonapi.PyMem_RawCalloc
allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]


@descriptor_class
class Strange(Descriptor, kind="test.Strange"):
    """Two inputs, two outputs like the first."""

    input_names = ("a", "b")
    required_inputs = 1

    @property
    def output_count(self) -> int:
        return 2

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        assert inputs[0] is not None
        return [inputs[0], inputs[0]]


class Factory(IWorkloadFactory):
    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def create_workload(self, layer: Layer) -> Any:
        execute = EXECUTE(lambda state, call: 0)
        address = allocate(1, ctypes.sizeof(CWorkload))
        table = CWorkload.from_address(address)
        table.size, (table.abi_major, table.abi_minor), table.execute = ctypes.sizeof(CWorkload), ABI_VERSION, execute
        for field, value in self.fields.items():
            setattr(table, field, value)
        FUNCTIONS.append((execute, self.fields))
        return new_capsule(address, NAME, None)


class Vendor(IBackend):
    """A backend whose workloads declare what a test says."""

    def __init__(self, *aliases: tuple[int, int, int, int], **fields: Any) -> None:
        if aliases:
            table = (CAlias * len(aliases))(*[CAlias(relation, output, read, 0, at) for relation, output, read, at in aliases])
            FUNCTIONS.append(table)
            fields = {"aliases": ctypes.addressof(table), "n_aliases": len(aliases), **fields}
        self.fields = fields

    id = BackendId("Strange")

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        return Support.yes()

    def create_workload_factory(self, context: IBackendContext | None, resources: Any, options: Any) -> Factory:
        return Factory(self.fields)


def load(vendor: Vendor) -> None:
    network = Network("strange")
    layer = network.add(Strange(), network.input("a", (16,)), network.input("b", (16,)), name="odd")
    for number, slot in enumerate(layer.outputs):
        network.output(slot, f"y{number}")
    with Runtime(threads=1) as runtime:
        runtime.load(network, optimize={"backends": [vendor]}).unload()


def workspace(shared: int, per_worker: int) -> Any:
    def ask(state: Any, inputs: Any, outputs: Any, workers: int, one: Any, other: Any) -> int:
        one[0], other[0] = shared, per_worker
        return 0

    function = WORKSPACE(ask)
    FUNCTIONS.append(function)
    return ctypes.cast(function, ctypes.c_void_p).value


SOUND = [
    ((1, 0, 0, 0),),
    ((1, 0, 0, 0), (1, 1, 0, 0)),
    ((2, 0, 0, 0), (2, 1, 1, 0)),
    ((2, 0, 0, 0), (2, 0, 1, 0)),
    ((2, 0, 0, 0), (1, 0, 0, 0)),
    ((3, 0, 0, 0),),
    ((3, 0, 0, 0), (3, 1, 1, 0)),
]


@pytest.mark.parametrize("aliases", SOUND, ids=str)
def test_sound_aliases_are_taken(aliases: tuple[tuple[int, int, int, int], ...]) -> None:
    load(Vendor(*aliases))


UNSOUND = {
    "a view before the input": (((1, 0, 0, -4),), "not negative"),
    "a view far before the input": (((1, 0, 0, -(1 << 62)),), "not negative"),
    "a view past the input": (((1, 0, 0, 4),), "reach past the 64 bytes of the input"),
    "a view far past the input": (((1, 0, 0, (1 << 63) - 1),), "reach past"),
    "a part before the output": (((3, 0, 0, -64),), "not negative"),
    "a part past the output": (((3, 0, 0, 64),), "reach past the 64 bytes of the output"),
    "in place at an offset": (((2, 0, 0, 4),), "offset 0"),
    "in place before the input": (((2, 0, 0, -4),), "offset 0"),
    "an output that is not there": (((1, 2, 0, 0),), "there are 2 outputs"),
    "a negative output": (((1, -1, 0, 0),), "there are 2 outputs"),
    "an input that is not there": (((1, 0, 2, 0),), "there are 2 inputs"),
    "a negative input": (((1, 0, -1, 0),), "there are 2 inputs"),
    "a relation that is not there": (((4, 0, 0, 0),), "relation 4"),
    "no relation": (((0, 0, 0, 0),), "relation 0"),
    "one input overwritten by two outputs": (((2, 0, 0, 0), (2, 1, 0, 0)), "shared with one output alone"),
    "an input overwritten and seen": (((1, 0, 0, 0), (2, 1, 0, 0)), "shared with one output alone"),
    "an input overwritten and part of another": (((2, 1, 0, 0), (3, 0, 0, 0)), "shared with one output alone"),
    "parts that overlap": (((3, 0, 0, 0), (3, 0, 1, 0)), "do not overlap"),
    "a view of two inputs": (((1, 0, 0, 0), (1, 0, 1, 0)), "a view of one input"),
    "a view made of parts": (((1, 0, 0, 0), (3, 0, 1, 0)), "is nothing else"),
}


@pytest.mark.parametrize("name", UNSOUND)
def test_unsound_aliases_are_refused(name: str) -> None:
    aliases, problem = UNSOUND[name]
    with pytest.raises(BackendError, match=problem) as caught:
        load(Vendor(*aliases))
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT
    assert caught.value.message.startswith("backend 'Strange', layer 'odd' (test.Strange): ")


DECLARED = {
    "unknown flags": ({"flags": 8}, "flags 0x8"),
    "an unknown concurrency": ({"concurrency": 3}, "concurrency 3"),
    "a negative concurrency": ({"concurrency": 0xFFFFFFFF}, "concurrency 4294967295"),
    "too many private bytes": ({"private_bytes": 1 << 63}, "private bytes"),
    "a count of aliases out of nowhere": ({"aliases": 64, "n_aliases": 1 << 30}, f"{1 << 30} aliases"),
    "negative workspace": ({"workspace": workspace((1 << 64) - 1, 0)}, "bytes of workspace"),
    "negative workspace per worker": ({"workspace": workspace(0, (1 << 64) - 64)}, "bytes of workspace"),
    "too much workspace": ({"workspace": workspace(1 << 50, 0)}, "bytes of workspace"),
    "workspace whose sum overflows": ({"workspace": workspace(1 << 46, 1 << 46)}, "bytes of workspace"),
    "nothing to do, and no alias for an output": ({"alias": (1, 0, 0, 0), "flags": ELIDABLE}, "0 of the 64 bytes of output 1"),
}


@pytest.mark.parametrize("name", DECLARED)
def test_other_declarations_are_refused(name: str) -> None:
    fields, problem = DECLARED[name]
    given: dict[str, Any] = dict(fields)
    aliases = [given.pop("alias")] if "alias" in given else []
    with pytest.raises(BackendError, match=problem) as caught:
        load(Vendor(*aliases, **given))
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT
    assert caught.value.message.startswith("backend 'Strange', layer 'odd' (test.Strange): ")


def test_the_workspace_that_exceeds_the_memory_of_a_load_is_named() -> None:
    with pytest.raises(LimitError, match=r"workspace for layer 'odd' on 'Strange', needs \d+ bytes") as caught:
        load(Vendor(workspace=workspace(1 << 46, 0)))
    assert caught.value.code is ErrorCode.LIMIT_EXCEEDED
    assert f"with {1 << 46} bytes" in caught.value.message


def test_an_input_that_is_left_out_has_no_alias() -> None:
    assert "left out" in problem_with([Alias(IN_PLACE, 0, 1)], [Extent(4), None], [Extent(4)])


def test_what_lies_inside_keeps_the_alignment_of_its_elements() -> None:
    assert "aligned to 4" in problem_with([Alias(VIEW, 0, 0, 2)], [Extent(16, 1)], [Extent(4, 4)])
    assert "aligned to 8" in problem_with([Alias(PART, 0, 0, 4)], [Extent(8, 8)], [Extent(16, 1)])
    assert problem_with([Alias(VIEW, 0, 0, 4)], [Extent(16, 1)], [Extent(4, 4)]) == ""


def test_in_place_needs_equal_sizes() -> None:
    assert "4 bytes" in problem_with([Alias(IN_PLACE, 0, 0)], [Extent(4)], [Extent(8)])


def test_empty_parts_lie_anywhere() -> None:
    aliases = [Alias(PART, 0, 0), Alias(PART, 0, 1), Alias(PART, 0, 2, 8)]
    assert problem_with(aliases, [Extent(8), Extent(0), Extent(8)], [Extent(16)]) == ""
    assert gap_in(aliases, [Extent(8), Extent(0), Extent(8)], [Extent(16)]) == ""
    assert "8 of the 16 bytes" in gap_in(aliases[:2], [Extent(8), Extent(0)], [Extent(16)])


def test_what_is_sound_is_what_no_byte_is_given_away_twice_in() -> None:
    """Drawn at random: sound lists are exactly those that a count of every byte allows."""
    luck = np.random.default_rng(5)
    sound = 0
    for _ in range(4000):
        inputs = [Extent(int(n)) for n in luck.integers(0, 4, luck.integers(1, 3))]
        outputs = [Extent(int(n)) for n in luck.integers(0, 4, luck.integers(1, 3))]
        aliases = [
            Alias(Relation(int(luck.integers(1, 4))), *(int(n) for n in luck.integers(0, 2, 2)), int(luck.integers(-1, 3)))
            for _ in range(luck.integers(1, 4))
        ]
        found = problem_with(aliases, inputs, outputs) == ""
        assert found is counted_sound(aliases, inputs, outputs), (aliases, inputs, outputs)
        sound += found
    assert 100 < sound < 3900


def counted_sound(aliases: list[Alias], inputs: list[Extent], outputs: list[Extent]) -> bool:
    covered: set[tuple[int, int]] = set()
    for relation, output, read, offset in aliases:
        if output >= len(outputs) or read >= len(inputs):
            return False
        mine, its = range(offset, offset + outputs[output].nbytes), range(inputs[read].nbytes)
        if relation is PART:
            its, mine = range(offset, offset + inputs[read].nbytes), range(outputs[output].nbytes)
            cells = {(output, byte) for byte in its}
            if cells & covered or any(a.output == output and a.relation is not PART for a in aliases):
                return False
            covered |= cells
        if relation is VIEW and sum(a.output == output and a.relation is VIEW for a in aliases) > 1:
            return False
        inner, outer = (its, mine) if relation is PART else (mine, its)
        if inner.start < 0 or inner.stop > outer.stop:
            return False
        if relation is IN_PLACE and (mine != its or any(a.input == read and a.output != output for a in aliases)):
            return False
    return True
