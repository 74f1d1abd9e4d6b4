"""Limits of a load: each is checked where it belongs, and its error says which it is."""

import threading

import pytest

import dovetail
from dovetail.ground import limits
from dovetail.ground.errors import ErrorCode, LimitError, OptionError
from dovetail.ground.limits import Budget, Limits, limited


def chain(length=3, shape=(4, 8)):
    network = dovetail.Network()
    slot = network.input("x", shape)
    for _ in range(length):
        slot = network.relu(network.unary(slot, "neg"))
    network.output(slot, "y")
    return network


@pytest.mark.parametrize(
    "given",
    [
        {"memory": 0},
        {"memory": -(10**5000)},
        {"elements": -1},
        {"layers": 1.5},
        {"nesting": True},
        {"seconds": 0},
        {"seconds": float("nan")},
        {"seconds": 10**400},
    ],
    ids=lambda given: next(iter(given)),
)
def test_a_limit_that_is_no_positive_number_is_refused(given):
    with pytest.raises(OptionError) as caught:
        Limits(**given)
    assert caught.value.code == ErrorCode.OPTION_INVALID


def test_what_are_no_limits_is_refused():
    with pytest.raises(OptionError):
        dovetail.optimize(chain(), limits={"seconds": 1})


def test_the_default_memory_is_what_the_machine_has():
    assert 1 << 20 < Limits().memory <= limits.ADDRESSABLE
    assert Limits().seconds is None


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [("memory.max", "1048576\n", 1 << 20), ("memory.max", "max\n", None)],
)
def test_the_limit_of_a_cgroup_counts_on_every_level(tmp_path, monkeypatch, name, text, expected):
    membership = tmp_path / "cgroup"
    membership.write_text("0::/outer/inner\n")
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    (tmp_path / "outer" / name).write_text(text)
    monkeypatch.setattr(limits, "_CGROUPS", str(tmp_path))
    monkeypatch.setattr(limits, "_MEMBERSHIPS", str(membership))
    assert list(limits._cgroup_limits()) == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    ("exceed", "limit"),
    [
        (lambda budget: (budget.take_memory(60, "a"), budget.take_memory(60, "b")), "memory"),
        (lambda budget: (budget.take_layers(6, "a"), budget.take_layers(6, "b")), "layers"),
        (lambda budget: budget.check_layers(11, "a"), "layers"),
        (lambda budget: budget.check_elements(51, "a"), "elements"),
        (lambda budget: budget.check_nesting(4, "a"), "nesting"),
    ],
)
def test_a_budget_that_is_exceeded_names_its_limit(exceed, limit):
    with pytest.raises(LimitError) as caught:
        exceed(Budget(Limits(memory=100, layers=10, elements=50, nesting=3)))
    assert caught.value.code == ErrorCode.LIMIT_EXCEEDED
    assert caught.value.details["limit"] == limit
    assert f"{limit}=" in caught.value.hint


def test_memory_that_is_given_back_can_be_taken_again():
    budget = Budget(Limits(memory=100))
    for _ in range(3):
        budget.take_memory(80, "a constant")
        budget.give_memory(80)
    assert budget.affords_memory(100)
    assert not budget.affords_memory(101)


def test_a_load_inside_a_load_is_part_of_its_budget():
    with limited(Limits(memory=100)) as outer, limited(None) as inner:
        assert inner is outer is limits.budget()
    with limited(Limits(memory=100)) as outer, limited(Limits(memory=5), joining=True) as inner:
        assert inner is outer
    assert limits.under_way() is None


def test_other_threads_have_budgets_of_their_own():
    found = []
    with limited(Limits(memory=100)):
        thread = threading.Thread(target=lambda: found.append(limits.under_way()))
        thread.start()
        thread.join()
    assert found == [None]


def test_layers_are_counted_where_they_are_added():
    with limited(Limits(layers=4)), pytest.raises(LimitError) as caught:
        chain(2)
    assert caught.value.details["limit"] == "layers"
