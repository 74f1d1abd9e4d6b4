"""What families make workloads with: kernels of one device, and how many work items they get."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from types import SimpleNamespace
from typing import Any

from dovetail import DType
from dovetail.ground.records import NamedTuple

from .driver.arguments import Alias as Alias
from .driver.arguments import Launch
from .programs import Building, Programs

TYPES = {
    DType.FLOAT32: "float",
    DType.FLOAT64: "double",
    DType.FLOAT16: "half",
    DType.BFLOAT16: "bfloat",
    DType.INT64: "long",
    DType.INT32: "int",
    DType.INT16: "short",
    DType.INT8: "char",
    DType.UINT64: "ulong",
    DType.UINT32: "uint",
    DType.UINT16: "ushort",
    DType.UINT8: "uchar",
    DType.BOOL: "uchar",
}
"""The name of an element type in OpenCL C, of types that are computed with."""


def whole_type(dtype: DType) -> str:
    """Return the type, of 32 bits at least, in which integers of a type are compared."""
    if dtype.bits < 32 or dtype is DType.INT32:
        return "int"
    return "ulong" if dtype is DType.UINT64 else "long"


def computed_type(dtype: DType) -> str:
    """Return the type in which elements of a type are compared or computed with."""
    if dtype.is_float:
        return "double" if dtype is DType.FLOAT64 else "float"
    return whole_type(dtype)


RAW = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}
"""By bytes of an element, the type in which elements are moved."""

_CPU_ITEMS = 4096
"""Elements that are worth a work item of a CPU."""
_GPU_GROUP = 128


class Work(NamedTuple):
    """What a layer becomes.

    Attributes:
        launches: Kernels, in order.
        scratch: Bytes of scratch memory that they use.
        aliases: Where outputs may share bytes with inputs.
        is_elidable: Nothing is left to do where all aliases were taken up.
    """

    launches: tuple[Launch, ...]
    scratch: int = 0
    aliases: tuple[Alias, ...] = ()
    is_elidable: bool = False


def _sums_halves(facts: Mapping[str, Any], *, fast_math: bool) -> bool:
    """Say whether a device gains by it: a CPU may list halves that it has no instructions for."""
    return fast_math and facts["kind"] != "cpu" and "cl_khr_fp16" in facts["extensions"].split()


class Kernels:
    """Kernels of one device, for one network.

    Attributes:
        device: The opened device.
        is_cpu: Whether the device is a CPU.
        compute_units: How many it has.
        fast_math: Whether results may be less exact for speed.
        has_subgroups: Whether kernels may reduce across subgroups.
        sums_halves: Whether products of halves may be summed in halves, a few at a time.
        programs: What is built for it.
    """

    def __init__(self, programs: Programs, building: Building) -> None:
        self.device = programs.device
        self.is_cpu = self.device.facts["kind"] == "cpu"
        self.compute_units = self.device.facts["compute_units"]
        self.has_subgroups = bool(self.device.facts["subgroup_language"])
        self.fast_math = programs.fast_math
        self.sums_halves = _sums_halves(self.device.facts, fast_math=self.fast_math)
        self.programs = programs
        self._building = building
        self._answers: Mapping[str, int] = {}
        self._form = {"ON_CPU": int(self.is_cpu)}  # sources branch on it as families do

    def choose(self, question: str, default: int, *others: int) -> int:
        """Return how something is done: by default, unless tuning found another way for a layer.

        Args:
            question: A word; together with those that the family asks before it, its answer must
                not change results by more than rounding.
            default: What a rule says.
            others: What else there is, the most promising first; those that are the default, or not
                above zero, do not count.
        """
        return self._answers.get(question, default)

    def answering(self, answers: Mapping[str, int]) -> Kernels:
        """Return the same, for a layer for which ways were chosen."""
        made = copy(self)
        made._answers = answers
        return made

    def get(self, files: str, name: str, **defined: Any) -> Any:
        """Return a kernel, in its form for this kind of device; see `Programs.kernel`."""
        return self.programs.kernel(files, name, self._building, **self._form, **defined)

    def each(self, items: int, *, least: int = _CPU_ITEMS) -> tuple[tuple[int], tuple[int]]:
        """Return work items and group for a kernel that walks over so many items by `EACH`.

        Args:
            items: How many there are.
            least: Items that are worth a work item of a CPU: fewer if each takes long.
        """
        if not items:
            return (0,), (1,)
        if self.is_cpu:
            return (max(1, min(-(-items // least), 4 * self.compute_units)),), (1,)
        groups = min(-(-items // _GPU_GROUP), 32 * self.compute_units)
        return (groups * _GPU_GROUP,), (_GPU_GROUP,)


class Foreseen(Kernels):
    """Stands for the kernels of a network while work is made for what it will want alone.

    Attributes:
        texts: Of the programs, in order; those that several layers want are there as often.
    """

    def __init__(self, kernels: Kernels) -> None:
        super().__init__(kernels.programs, kernels._building)
        self.texts: list[str] = []

    def get(self, files: str, name: str, **defined: Any) -> Any:
        """Note what is wanted; there is no kernel yet."""
        self.texts.append(self.programs.text(files, **self._form, **defined))


class Answered(Exception):
    """A family has asked all that it asks."""


class Asking(Kernels):
    """Stands for the kernels of a device that need not be open, to hear what a family asks.

    Attributes:
        questions: The answers to each, the default first.
    """

    def __init__(self, facts: Mapping[str, Any], *, fast_math: bool) -> None:
        self.device = SimpleNamespace(facts=facts)
        self.is_cpu = facts["kind"] == "cpu"
        self.compute_units = facts["compute_units"]
        self.has_subgroups = bool(facts["subgroup_language"])
        self.fast_math = fast_math
        self.sums_halves = _sums_halves(facts, fast_math=fast_math)
        self.questions: dict[str, tuple[int, ...]] = {}

    def choose(self, question: str, default: int, *others: int) -> int:
        """Note a question, and go on by default."""
        if question not in self.questions:
            found = tuple(dict.fromkeys(one for one in (default, *others) if one == default or one > 0))
            if len(found) > 1:
                self.questions[question] = found
        return default

    def get(self, files: str, name: str, **defined: Any) -> Any:
        """End the asking.

        Raises:
            Answered: Always.
        """
        raise Answered
