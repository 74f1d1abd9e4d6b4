"""Kinds as dataclasses, whose fields are worked out when they are first asked for."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

from dovetail.graph.descriptor import Descriptor, descriptor_class


def test_fields_of_a_kind_are_there_whoever_asks_first() -> None:
    @descriptor_class
    class Base(Descriptor, kind="test.Base"):
        first: int = 1

    @descriptor_class
    class Derived(Base, kind="test.Derived"):
        second: tuple[int, ...] = ()

    class Plain(Derived, kind="test.Plain"):
        pass

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda kind: [one.name for one in dataclasses.fields(kind)], [Plain, Derived, Base] * 8))
    assert found == [["first", "second"], ["first", "second"], ["first"]] * 8
    assert Plain(second=(2,)).attributes() == {"first": 1, "second": (2,)}
    assert dataclasses.replace(Derived(first=3), second=(4,)).attributes() == {"first": 3, "second": (4,)}
