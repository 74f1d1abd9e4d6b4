"""What of two models is compared with what, and which sizes and options go to which."""

from __future__ import annotations

from dovetail import Network
from dovetail_sdk.pairs import groups, names_with_sizes, options_for, paired


def test_names_are_paired() -> None:
    assert paired(["a", "b"], ["b", "a"], by_position=True).pairs == (("a", "a"), ("b", "b"))
    assert paired(["a", "b"], ["c", "a"], by_position=True).pairs == (("a", "a"), ("b", "c"))
    apart = paired(["a", "b"], ["c", "a"], by_position=False)
    assert (apart.pairs, apart.only_a, apart.only_b) == ((("a", "a"),), ("b",), ("c",))


def test_layers_are_shown_in_groups() -> None:
    assert groups("abcde", {"a": 4, "b": 4, "c": 9, "d": 1}, 8) == [["a", "b"], ["c"], ["d", "e"]]


def test_names_with_sizes_and_options() -> None:
    network = Network("sizes")
    network.output(network.input("x", ("N", 3)), "y")
    assert names_with_sizes(network) == {"x", "N"}
    options = {"CpuAcc": {"isa": "scalar"}, "Other": {}}
    assert options_for(options, ["CpuRef"], [["CpuRef"], ["CpuAcc?", "CpuRef"]]) == {"Other": {}}
    assert options_for(options, ["CpuAcc:0"], [["CpuAcc:0"]]) == options
    assert options_for(None, ["CpuAcc"], []) is None
