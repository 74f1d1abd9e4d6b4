"""Classes of named fields do what `dataclasses` and `typing` do, and are held against those."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import typing

import pytest

from dovetail.ground.records import NamedTuple, Record, field


class Pair(NamedTuple):
    """Two fields."""

    first: int
    second: str = "b"

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"


class UsualPair(typing.NamedTuple):
    first: int
    second: str = "b"


class Frozen(Record, frozen=True, kw_only=True):
    """A record that stays as it is."""

    count: int = 1
    names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError("negative")
        object.__setattr__(self, "names", [*self.names, "last"])


class Mutable(Record):
    count: int
    names: list[str] = field(default_factory=list)


@dataclasses.dataclass(slots=True)
class UsualMutable:
    count: int
    names: list[str] = dataclasses.field(default_factory=list)


class Identical(Record, eq=False):
    count: int = 0


CALLS: list[tuple[tuple[typing.Any, ...], dict[str, typing.Any]]] = [
    ((1,), {}),
    ((1, "x"), {}),
    ((), {"first": 1}),
    ((1,), {"second": "x"}),
    ((), {"second": "x", "first": 2}),
]


@pytest.mark.parametrize(("values", "named"), CALLS)
def test_named_tuple_is_what_typing_makes(values, named) -> None:
    ours, usual = Pair(*values, **named), UsualPair(*values, **named)
    assert isinstance(ours, tuple)
    assert tuple(ours) == tuple(usual)
    assert (ours.first, ours.second) == (usual.first, usual.second)
    assert ours == usual
    assert hash(ours) == hash(usual)
    assert ours._asdict() == usual._asdict()
    assert repr(ours) == repr(usual).replace("Usual", "")
    assert ours._replace(first=7) == usual._replace(first=7)
    assert Pair._make(iter(ours)) == ours
    assert (Pair._fields, Pair._field_defaults) == (UsualPair._fields, UsualPair._field_defaults)
    assert ours.both == f"{ours.first}{ours.second}"
    for again in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert again == ours
        assert type(again) is Pair


@pytest.mark.parametrize(
    ("kind", "values", "named"),
    [
        (Pair, (), {}),
        (Pair, (1, "b", 3), {}),
        (Pair, (1,), {"first": 1}),
        (Pair, (1,), {"third": 1}),
        (Mutable, (), {}),
        (Mutable, (1, [], 2), {}),
        (Mutable, (1,), {"count": 1}),
        (Mutable, (1,), {"third": 1}),
        (Frozen, (1,), {}),
    ],
)
def test_wrong_arguments_are_refused(kind, values, named) -> None:
    with pytest.raises(TypeError, match=f"{kind.__name__}"):
        kind(*values, **named)


def test_named_tuple_refuses_changes() -> None:
    with pytest.raises(AttributeError):
        Pair(1).first = 2  # type: ignore[misc]  # that it cannot be set is what is tested
    with pytest.raises(AttributeError):
        Pair(1).third = 2  # type: ignore[attr-defined]  # there is no such field
    with pytest.raises((TypeError, ValueError), match="third"):
        Pair(1)._replace(third=2)  # type: ignore[call-arg]  # there is no such field


def test_named_tuple_is_matched_by_position() -> None:
    match Pair(1):
        case Pair(first, second):
            assert (first, second) == (1, "b")


def test_record_is_what_a_dataclass_is() -> None:
    ours, usual = Mutable(1, ["a"]), UsualMutable(1, ["a"])
    assert repr(ours) == repr(usual).replace("Usual", "")
    assert ours == Mutable(1, names=["a"])
    assert ours != Mutable(2, ["a"])
    assert ours != usual
    ours.count = 3
    assert ours.count == 3
    with pytest.raises(AttributeError):
        ours.other = 1  # type: ignore[attr-defined]  # there is no such field
    with pytest.raises(TypeError, match="unhashable"):
        hash(ours)


def test_defaults_of_a_record_are_made_anew() -> None:
    one, other = Mutable(1), Mutable(1)
    one.names.append("a")
    assert other.names == []


def test_frozen_record_refuses_changes() -> None:
    record = Frozen(count=2)
    assert record.names == ["last"]
    with pytest.raises(AttributeError, match="count"):
        record.count = 3  # type: ignore[misc]  # that it cannot be set is what is tested
    with pytest.raises(AttributeError, match="count"):
        del record.count
    assert record.count == 2
    with pytest.raises(ValueError, match="negative"):
        Frozen(count=-1)


def test_frozen_records_are_equal_and_hashed_by_their_fields() -> None:
    class Point(Record, frozen=True):
        x: int = 0
        y: int = 0

    assert {Point(1, 2), Point(1, y=2), Point(2, 1)} == {Point(2, 1), Point(1, 2)}
    assert Point(1).replaced(y=3) == Point(1, 3)


def test_record_without_equality_is_itself_alone() -> None:
    assert Identical() != Identical()
    assert len({Identical(), Identical()}) == 2


@pytest.mark.parametrize("record", [Mutable(1, ["a"]), Frozen(count=3)])
def test_records_are_copied_and_pickled(record) -> None:
    for again in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert again == record
        assert again.names == record.names


def test_functions_of_dataclasses_take_records() -> None:
    assert dataclasses.is_dataclass(Frozen)
    assert [one.name for one in dataclasses.fields(Frozen)] == ["count", "names"]
    assert Frozen.__dataclass_params__.frozen  # type: ignore[attr-defined]  # as `dataclasses` has it
    assert not Mutable.__dataclass_params__.frozen  # type: ignore[attr-defined]  # as `dataclasses` has it
    record = Mutable(1, ["a"])
    assert dataclasses.asdict(record) == {"count": 1, "names": ["a"]}
    assert dataclasses.replace(record, count=2) == Mutable(2, ["a"])
    assert dataclasses.fields(Mutable)[1].default_factory is list
