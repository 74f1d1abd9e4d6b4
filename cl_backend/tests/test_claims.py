"""What the manifest claims, beside what the README says of it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import dovetail
from dovetail import Descriptor, Network, layers

MEMBER = Path(__file__).parents[1]


def claimed():
    """Return the kinds of the core of which some layers are claimed; a claim may name several."""
    manifest = json.loads((MEMBER / "src" / "dovetail_cl" / "dovetail-backend.json").read_text("utf-8"))
    names = {name for key in manifest["claims"] for name in key.split(", ")}
    return {name.removeprefix("dovetail.") for name in names if name.startswith("dovetail.")}


def of_the_core():
    """Return the kinds of the core."""
    named = (getattr(layers, name) for name in layers.__all__)
    kinds = [one.kind for one in named if isinstance(one, type) and issubclass(one, Descriptor)]
    return {kind.removeprefix("dovetail.") for kind in kinds if kind}


def test_the_readme_tells_which_kinds_are_left_and_why():
    text = (MEMBER / "README.md").read_text("utf-8")
    section = text.split("## Kinds that are left\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE)
    assert [kind for kind, _ in rows] == sorted(of_the_core() - claimed())
    assert all(why.strip() for _, why in rows)


def test_all_that_is_claimed_is_of_the_core():
    assert claimed() <= of_the_core()


def turned(rank, first):
    """Return ones in a shape of which no two neighbouring axes are walked over in equal steps."""
    return np.full([2 if axis % 2 == first else 1 for axis in range(rank)], 1 + first, np.float32)


@pytest.mark.parametrize("rank", [7, 16])
def test_as_many_operands_are_broadcast_as_are_fused(way, rank):
    network, slots = Network("broadcast"), []
    feeds = {f"x{at}": turned(rank, at % 2) for at in range(8)}
    slots = [network.input(name, x.shape) for name, x in feeds.items()]
    total = slots[0]
    for slot in slots[1:]:
        total = network.addition(total, slot)
    network.output(total, "y")
    with dovetail.load(network, [way]) as net:
        y = net.run(feeds)["y"]
        assert len(net.placement.layers) <= 2
    assert y.shape == (2,) * rank
    assert (y == 12).all()


def test_products_of_the_largest_rank(way):
    network = Network("product")
    a, b = turned(14, 0)[..., None, None], turned(14, 1)[..., None, None]
    network.output(network.matmul(network.input("a", a.shape), network.input("b", b.shape)), "y")
    with dovetail.load(network, [way]) as net:
        y = net.run({"a": a, "b": b})["y"]
    assert y.shape == (2,) * 14 + (1, 1)
    assert (y == 2).all()


def test_a_larger_rank_is_refused(backend):
    network = Network("refused")
    network.output(network.addition(*(network.input(f"x{at}", (1,) * 17) for at in range(2))), "y")
    with pytest.raises(dovetail.PlacementError, match=r"output\.rank is 17; at most 16 is taken"):
        dovetail.load(network, [backend])
