"""Kinds: a layer's kind **is** its descriptor class.

A descriptor is a frozen dataclass that knows its inputs, infers its outputs and may evaluate itself
on constants. The set of kinds is open: a vendor's descriptor class is as good as one of ours.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias, TypeVar, dataclass_transform, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

from ..ground.errors import ErrorCode, GraphError
from ..ground.pieces import in_order
from .element_types import DType
from .late_array import LateArray
from .tensor import TensorInfo

Array: TypeAlias = npt.NDArray[Any]
Infos: TypeAlias = Sequence[TensorInfo | None]
Values: TypeAlias = Sequence[Array | None]

_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def descriptor_class(cls: type[_Class]) -> type[_Class]:
    """Make a subclass of `Descriptor` a frozen, keyword-only dataclass.

    It is what `dataclass(frozen=True, kw_only=True)` makes, whose place it can take. That one
    compiles six methods per class, which for all kinds together took half of the time of the first
    import; these are inherited from `Descriptor`. The fields of a kind are worked out when they are
    first asked for: few networks have layers of many kinds.
    """
    type.__setattr__(cls, "__dataclass_fields__", _LATE_FIELDS)
    return cls


class _LateFields:
    """The fields of a class until they are asked for, by a first descriptor or by `dataclasses`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # again for the fields of a base

    def __get__(self, descriptor: object, kind: Any) -> dict[str, dataclasses.Field[Any]]:
        with self._lock:
            for owner in kind.__mro__:
                if vars(owner).get("__dataclass_fields__") is self:
                    # This replaces `self` in one step: other threads see all fields, or wait here.
                    dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=True)(owner)
                    break
            fields: dict[str, dataclasses.Field[Any]] = kind.__dataclass_fields__
            return fields


_LATE_FIELDS = _LateFields()


class Descriptor:
    """Base of all kinds.

    Subclass it with `descriptor_class`, or any frozen dataclass, whose fields are the attributes.

    Attributes are int, float, bool, str, enum, None, tuples of these, or a NumPy array, so that
    they cross C, JSON and processes; the value of an enum's member stands for the member. A field
    added after version 1 of a kind carries ``field(default=..., metadata={"since": 2})``: the core
    refuses it on behalf of a backend that knows only version 1, unless it is at its default.

    Class attributes:
        kind: Namespaced name, such as ``dovetail.Convolution2d`` or ``acme.Swish``.
        version: Schema version, raised when a field is added.
        input_names: Names of the input slots, in order.
        required_inputs: How many of the first inputs must be connected.
        variadic: True if the last name stands for any number of inputs.
        value_inputs: Indices of inputs whose *value*, not only whose info, shapes the result (such
            as the target shape of a reshape). They must be constants by the time a network is
            optimized; `resolve` then turns them into attributes.
        dtype_of: The slot, ("input", i) or ("output", i), whose element type names what the layer
            is computed in.
    """

    kind: ClassVar[str] = ""
    version: ClassVar[int] = 1
    input_names: ClassVar[tuple[str, ...]] = ("input",)
    required_inputs: ClassVar[int] = 1
    variadic: ClassVar[bool] = False
    value_inputs: ClassVar[tuple[int, ...]] = ()
    dtype_of: ClassVar[tuple[str, int]] = ("input", 0)

    def __init_subclass__(cls, *, kind: str = "", version: int = 1, **extra: Any) -> None:
        super().__init_subclass__(**extra)
        if kind:
            if "." not in kind:
                raise GraphError(
                    f"kind {kind!r} has no namespace",
                    code=ErrorCode.ATTRIBUTE_INVALID,
                    hint="write it as 'vendor.Kind'",
                )
            cls.kind, cls.version = kind, version

    def __init__(self, **values: Any) -> None:
        kind = type(self)
        attributes = _plain_defaults(kind) | values
        if attributes.keys() != _fields(kind).keys():
            attributes = _completed(kind, values)
        for value in attributes.values():
            if type(value) is str:
                attributes |= _members(kind, attributes)
                break
        vars(self).update(attributes)

    def __post_init__(self) -> None:
        """Do the same as `__init__` for classes of `dataclasses.dataclass`, which call this."""
        for name, member in _members(type(self), self.attributes()).items():
            object.__setattr__(self, name, member)

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in self.attributes().items())})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(map(_same, self.attributes().values(), other.attributes().values()))

    def __hash__(self) -> int:
        return hash((type(self), *self.attributes().values()))

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    @property
    def output_count(self) -> int:
        """Number of output slots."""
        return 1

    def in_words(self) -> str:
        """(optional) Say what a private layer computes, and how.

        For example "convolution + ReLU, Winograd 4x4". Default: nothing.

        For placement reports. A kind that other people's networks are made of needs no words
        besides its name.
        """
        return ""

    def steps_in_words(self) -> Sequence[tuple[str, str]]:
        """(optional) Say of each step inside a private layer what it is: its name, and words.

        For example ("conv1", "convolution engine, 90112 cycles"). For placement reports, where they
        stand below the layer. Default: none.
        """
        return ()

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        """Return the outputs' infos for the inputs' infos (None for an input not connected).

        Sizes are ints. Before the sizes of a network are fixed, a size may be an `Expression`
        over its symbols. It passes for an int: sums, products and quotients need no care. A
        comparison that symbols decide raises `UndecidedError`, and so does ``int()``. Let it
        pass: the shape is then unknown until sizes are fixed. To know it earlier, compare by
        `dovetail.graph.size_rules`: `differ` and `below` are true where that is known, `larger`
        and `smaller` stand for max and min.

        Raises:
            GraphError: The inputs do not fit. The graph adds the layer's name.
        """
        raise GraphError(f"kind {self.kind} does not infer shapes")

    def resolve(self, inputs: Infos, values: Values) -> Descriptor:
        """(optional) Absorb values of `value_inputs`, or known sizes, into attributes.

        Default: nothing to absorb.

        Inputs without a value, or not connected, show as None in `values`. Before sizes are fixed,
        sizes are expressions as for `infer`, and so are elements of values that follow from sizes,
        in an array of dtype object.
        """
        return self

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        """(optional) Compute the outputs from constant inputs, for constant folding.

        Default None: cannot.

        Values that follow from symbolic sizes are arrays of dtype object with expressions among
        their elements. What is raised for such is no error: the value is unknown until sizes are
        fixed.
        """
        return None

    def checked_inputs(self, inputs: Infos, values: Values) -> Sequence[int]:
        """(optional) Name the inputs whose values may make a run fail; default none.

        Positions, for example, may be out of range.

        An input whose value is known to be harmless need not be named. Zeros must be harmless:
        where nothing is, such as a position in an axis of size 0, `infer` refuses the inputs.
        """
        return ()

    def selects_elements(self) -> bool:
        """(optional) Say whether integers need no meaning here; default False.

        They need none if each one returned was read, or is an attribute.

        They are picked by place or by order alone. The result is then the same whether the slots of
        that type carry a quantization, one and the same on all of them, or none; the optimizer may
        annotate such a layer.
        """
        return False

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        """(optional) Multiply-accumulates for these infos; default 0.

        A private layer tells how many it computes itself. Where several stand for one layer of the
        network, profiles and reports share out the work of that layer among those that tell.
        """
        return 0

    def computes_in(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> DType | None:
        """Element type that selects a kernel: that of `dtype_of`; None without that slot."""
        side, index = self.dtype_of
        slots: Infos = outputs if side == "output" else inputs
        info = slots[index] if index < len(slots) else None
        return None if info is None else info.dtype

    def attributes(self) -> dict[str, Any]:
        """The attributes by name, in order."""
        return {name: getattr(self, name) for name in _fields(type(self))}

    def newer_attributes(self, known_version: int) -> list[str]:
        """Names of attributes younger than `known_version` that are not at their default."""
        return [
            name
            for name, f in (_fields if known_version < 1 else _later_fields)(type(self)).items()
            if f.metadata.get("since", 1) > known_version and not _same(getattr(self, name), _default(f))
        ]


def evaluated(descriptor: Descriptor, inputs: Infos, values: Values, outputs: Infos) -> list[Array] | None:
    """Evaluate a layer on constants.

    Args:
        descriptor: Its kind and attributes.
        inputs: Infos of its inputs.
        values: Their values, None where one is not constant.
        outputs: What was inferred of its outputs, None where only the values tell.

    Returns:
        An array per output, contiguous; None if it cannot be evaluated.
    """
    is_constant = all(value is not None or info is None for value, info in zip(values, inputs, strict=True))
    if is_constant and outputs and all(info is not None and not info.elements for info in outputs):
        # Beside a size of zero the others may be of any magnitude: no kind is asked to work its way
        # through them.
        return [np.empty(info.sizes, info.dtype.numpy) for info in outputs if info is not None]
    with np.errstate(all="ignore"):
        arrays = descriptor.evaluate(inputs, values)
    return None if arrays is None else [in_order(np.asarray(array)) for array in arrays]


def _fields_of(kind: Any) -> dict[str, dataclasses.Field[Any]]:
    """Return the attributes of a class of descriptors by name."""
    return {field.name: field for field in dataclasses.fields(kind)}


_fields: Callable[[Any], dict[str, dataclasses.Field[Any]]] = cache(_fields_of)
"""The same, kept: `dataclasses.fields` looks through all of a class each time."""


def _plain_defaults_of(kind: Any) -> dict[str, Any]:
    return {name: field.default for name, field in _fields(kind).items() if field.default is not dataclasses.MISSING}


_plain_defaults: Callable[[Any], dict[str, Any]] = cache(_plain_defaults_of)
"""The values of attributes that may be left out, those apart which are made anew each time."""


def _later_fields_of(kind: Any) -> dict[str, dataclasses.Field[Any]]:
    return {name: field for name, field in _fields(kind).items() if field.metadata.get("since", 1) > 1}


_later_fields: Callable[[Any], dict[str, dataclasses.Field[Any]]] = cache(_later_fields_of)
"""The attributes younger than version 1 of a kind; most kinds have none, each layer is asked."""


def _completed(kind: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a new descriptor in order, those that are made anew included.

    Raises:
        TypeError: One that must be given is not, or one is given that there is not.
    """
    attributes = {}
    for name, field in _fields(kind).items():
        if name in values:
            value = values.pop(name)
        elif (value := _default(field)) is dataclasses.MISSING:
            raise TypeError(f"{kind.__name__}() needs the attribute {name!r}")
        attributes[name] = value
    if values:
        known = ", ".join(_fields(kind)) or "none"
        raise TypeError(f"{kind.__name__}() has no attribute {next(iter(values))!r}; it has {known}")
    return attributes


def _enums_of(kind: Any) -> dict[str, type[Enum]]:
    try:
        hints = get_type_hints(kind)
    except (NameError, TypeError):  # annotations that only a type checker can resolve
        return {}
    choices = {name: get_args(hints[name]) or (hints[name],) for name in _fields(kind)}
    return {
        name: option
        for name, options in choices.items()
        if str not in options
        for option in options
        if isinstance(option, type) and issubclass(option, Enum)
    }


_enums: Callable[[Any], dict[str, type[Enum]]] = cache(_enums_of)
"""The attributes of a class of descriptors that are members of an enum, with that."""


def _members(kind: Any, attributes: dict[str, Any]) -> dict[str, Enum]:
    """Return the members of enums that plain strings among these attributes stand for.

    Kinds compare them by identity.

    Raises:
        GraphError: One stands for none (`ATTRIBUTE_INVALID`).
    """
    found: dict[str, Enum] = {}
    for name, value in attributes.items():
        if type(value) is str and (options := _enums(kind).get(name)) is not None:
            try:
                found[name] = DType.of(value) if options is DType else options(value)
            except ValueError:
                raise GraphError(
                    f"attribute {name!r} of {kind.kind} is {value!r}",
                    code=ErrorCode.ATTRIBUTE_INVALID,
                    hint=f"use one of {', '.join(repr(member.value) for member in options)}",
                ) from None
    return found


def _default(field: dataclasses.Field[Any]) -> Any:
    """Value of an attribute that is not given; MISSING if it must be."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return False
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return a is b or bool(a == b)


class Selection(Descriptor):
    """Base of kinds that only pick elements by their place, whatever these mean."""

    def selects_elements(self) -> bool:
        return True


@descriptor_class
class Input(Descriptor, kind="dovetail.Input"):
    """A tensor handed in by the caller."""

    input_names: ClassVar[tuple[str, ...]] = ()
    required_inputs: ClassVar[int] = 0
    info: TensorInfo

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return [self.info]


@descriptor_class
class Output(Descriptor, kind="dovetail.Output"):
    """A tensor handed back to the caller."""

    @property
    def output_count(self) -> int:
        return 0

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return []


@descriptor_class
class Constant(Descriptor, kind="dovetail.Constant"):
    """A tensor known beforehand, such as weights; the array is never written to.

    One that a parser left in its file (`Constant.late`) is read when `value` is first asked for.
    """

    input_names: ClassVar[tuple[str, ...]] = ()
    required_inputs: ClassVar[int] = 0
    value: Array
    dtype: DType | None = None
    """Given where NumPy's dtype does not tell: bfloat16."""

    # Two constants are the same only if they are one: comparing weights would cost more than it is
    # worth.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @classmethod
    def late(cls, array: LateArray) -> Constant:
        """Make one whose value is read when it is first asked for."""
        made = cls.__new__(cls)
        vars(made).update(dtype=array.dtype if array.dtype is DType.BFLOAT16 else None, _unread=array)
        return made

    @property
    def unread(self) -> LateArray | None:
        """What is known of the value while nobody has asked for it; None once it is there."""
        found: LateArray | None = vars(self).get("_unread")
        return found

    @property
    def elements(self) -> int:
        """How many elements the value has."""
        unread = self.unread  # once: another thread may be reading the value
        return self.value.size if unread is None else unread.elements

    @property
    def nbytes(self) -> int:
        """The bytes that these take."""
        unread = self.unread
        return self.value.nbytes if unread is None else unread.nbytes

    def __repr__(self) -> str:
        unread = self.unread
        if unread is None:
            return super().__repr__()
        return f"{type(self).__qualname__}(value=<{TensorInfo(unread.shape, unread.dtype)} in a file>, dtype={self.dtype!r})"

    if not TYPE_CHECKING:  # which would take any name for one that there is

        def __getattr__(self, name: str) -> Any:
            """Read the value; asked for what is not there, once."""
            attributes = vars(self)
            if name == "value":
                late = attributes.get("_unread")
                if late is not None:
                    value = late.read()
                    value.flags.writeable = False
                    attributes.setdefault("value", value)  # of two threads, the first counts
                    attributes.pop("_unread", None)
                if "value" in attributes:
                    return attributes["value"]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __getstate__(self) -> dict[str, Any]:
        return self.attributes()  # with the value: a place in a file means nothing elsewhere

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        unread = self.unread
        if unread is not None:
            return [TensorInfo(unread.shape, unread.dtype)]
        return [TensorInfo(tuple(self.value.shape), self.dtype or DType.of(self.value.dtype))]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array]:
        return [self.value]
