"""Classes of named fields that cost a tenth of what `dataclasses` and `typing` take to make one.

Those compile source text for each class. For the classes of the core that was a fourth of the time
from a fresh process to the first result. Here all classes share their methods.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NoReturn, Self, dataclass_transform

__all__ = ["NamedTuple", "Record", "field"]


class _Factory:
    """A default that is made anew for each record."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], Any]) -> Any:
    """Declare a field of a record whose default is made anew each time."""
    return _Factory(default_factory)


def _completed(kind: Any, values: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    """Return the values of all fields in order, from arguments and defaults.

    Raises:
        TypeError: One that must be given is not, or one is given that there is not.
    """
    names, defaults, found = kind._fields, kind._field_defaults, list(values)
    for name in names[len(values) :]:
        if name in named:
            found.append(named.pop(name))
        elif name in defaults:
            default = defaults[name]
            found.append(default.make() if type(default) is _Factory else default)
        else:
            raise TypeError(f"{kind.__name__}() needs the argument {name!r}")
    if named or len(found) > len(names):
        surplus = repr(next(iter(named))) if named else f"number {len(names) + 1}"
        raise TypeError(
            f"{kind.__name__}() has no argument {surplus}, or it is given twice; it has {', '.join(names) or 'none'}"
        )
    return found


def _rests(names: tuple[str, ...], defaults: dict[str, Any]) -> dict[int, tuple[Any, ...]]:
    """Return the values of the last fields, for each number of first ones that may stand alone.

    Those apart that are made anew each time.
    """
    found: dict[int, tuple[Any, ...]] = {}
    rest: tuple[Any, ...] = ()
    for number in range(len(names) - 1, -1, -1):
        name = names[number]
        if name not in defaults or type(defaults[name]) is _Factory:
            break
        found[number] = rest = (defaults[name], *rest)
    return found


def _described(value: Any, fields: tuple[str, ...]) -> str:
    return f"{type(value).__qualname__}({', '.join([f'{name}={getattr(value, name)!r}' for name in fields])})"


# -- tuples ----------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    try:
        from _collections import _tuplegetter as _getter
    except ImportError:  # which `collections.namedtuple` does without in the same way

        def _getter(index: int, text: str) -> property:
            return property(itemgetter(index), doc=text)

    def _new_tuple(cls, *values, **named):
        if named:
            values = _completed(cls, values, named)
        elif len(values) != cls._count:
            rest = cls._rests.get(len(values))
            values = _completed(cls, values, named) if rest is None else values + rest
        return _tuple_of(cls, values)

    _tuple_of = tuple.__new__

    def _make(cls, values):
        return cls(*values)

    def _replace(self, **changes):
        values = [changes.pop(name, value) for name, value in zip(self._fields, self, strict=True)]
        if changes:
            raise ValueError(f"{type(self).__name__} has no field {next(iter(changes))!r}")
        return type(self)(*values)

    def _asdict(self):
        return dict(zip(self._fields, self, strict=True))

    _TUPLE_METHODS = {
        "__slots__": (),
        "__new__": _new_tuple,
        "__repr__": lambda self: _described(self, self._fields),
        "__getnewargs__": lambda self: tuple(self),
        "_make": classmethod(_make),
        "_replace": _replace,
        "_asdict": _asdict,
    }

    class _NamedTupleType(type):
        """Makes a plain subclass of tuple of each class that derives from `NamedTuple`."""

        def __new__(cls, name, bases, namespace):
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            fields = tuple(namespace.get("__annotations__", ()))
            defaults = {name: namespace[name] for name in fields if name in namespace}
            getters = {field: _getter(index, f"Field {index}") for index, field in enumerate(fields)}
            facts = {
                "_fields": fields,
                "_count": len(fields),
                "_field_defaults": defaults,
                "_rests": _rests(fields, defaults),
                "__match_args__": fields,
            }
            return type(name, (tuple,), _TUPLE_METHODS | namespace | getters | facts)

    class NamedTuple(metaclass=_NamedTupleType):
        """Does what `typing.NamedTuple` does, without compiling source text."""


# -- records ---------------------------------------------------------------------------------------


def _refuse_change(self: Any, name: str, value: Any = None) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"field {name!r} of {type(self).__name__} cannot be changed")


def _equal(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash((type(self), _values(self)))


def _values(record: Any) -> tuple[Any, ...]:
    return tuple([getattr(record, name) for name in record._fields])


class _ForDataclasses:
    """What `dataclasses` looks up in a class, made when it does: its functions take records too."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, record: object, kind: Any) -> Any:
        from dataclasses import MISSING, make_dataclass
        from dataclasses import field as field_of

        fields = []
        for name in kind._fields:
            default = kind._field_defaults.get(name, MISSING)
            declared = field_of(default_factory=default.make) if type(default) is _Factory else field_of(default=default)
            fields.append((name, kind.__annotations__[name], declared))
        frozen = kind.__setattr__ is _refuse_change
        alike = make_dataclass(kind.__name__, fields, frozen=frozen, kw_only=not kind._positional)
        for name in ("__dataclass_fields__", "__dataclass_params__"):
            setattr(kind, name, getattr(alike, name))
        return getattr(kind, self._name)


@dataclass_transform(field_specifiers=(field,))
class _RecordType(type):
    """Gives each class of records its slots.

    The keywords of a class mean what they mean for `dataclasses.dataclass`.
    """

    _fields: tuple[str, ...]
    _rests: dict[int, tuple[Any, ...]]
    _field_setters: tuple[Callable[[Any, Any], None], ...]

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        frozen: bool = False,
        eq: bool = True,
        kw_only: bool = False,
    ) -> _RecordType:
        own = tuple(namespace.get("__annotations__", ())) if bases else ()
        defaults = {name: namespace.pop(name) for name in own if name in namespace}
        if bases and eq:
            namespace = {"__eq__": _equal, "__hash__": _hash if frozen else None} | namespace
        if frozen:
            namespace |= {"__setattr__": _refuse_change, "__delattr__": _refuse_change}
        made: Any = super().__new__(cls, name, bases, namespace | {"__slots__": own, "__match_args__": own})
        made._fields = own
        made._field_defaults = defaults
        made._rests = _rests(own, defaults)
        made._field_setters = tuple([vars(made)[name].__set__ for name in own])
        made._positional = 0 if kw_only else len(own)
        return made  # type: ignore[no-any-return]  # the attributes set above are no one else's

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: bool) -> None:
        super().__init__(name, bases, namespace)


class Record(metaclass=_RecordType):
    """Base of classes whose annotations are their fields: ``class Point(Record, frozen=True)``.

    It is what ``dataclass(slots=True)`` makes; a class derives from it directly. `__post_init__` is
    called once the fields are set.
    """

    if not TYPE_CHECKING:  # for type checkers each class has the arguments of its fields
        __dataclass_fields__ = _ForDataclasses("__dataclass_fields__")
        __dataclass_params__ = _ForDataclasses("__dataclass_params__")

        def __init__(self, *values, **named):
            kind = type(self)
            if len(values) > kind._positional:
                raise TypeError(f"{kind.__name__}() takes {kind._positional} arguments without a name, not {len(values)}")
            if named or len(values) != len(kind._fields):
                rest = None if named else kind._rests.get(len(values))
                values = _completed(kind, values, named) if rest is None else values + rest
            for put, value in zip(kind._field_setters, values, strict=True):
                put(self, value)
            self.__post_init__()

    def __post_init__(self) -> None:
        """(optional) Complete or check a record whose fields are set; default: nothing to do."""

    def __repr__(self) -> str:
        return _described(self, type(self)._fields)

    def __getstate__(self) -> Any:
        return _values(self)

    def __setstate__(self, values: Any) -> None:
        for put, value in zip(type(self)._field_setters, values, strict=True):
            put(self, value)

    def as_dict(self) -> dict[str, Any]:
        """Return the values by field."""
        return dict(zip(type(self)._fields, _values(self), strict=True))

    def replaced(self, **changes: Any) -> Self:
        """Return a copy with other values of some fields."""
        return type(self)(**self.as_dict() | changes)
