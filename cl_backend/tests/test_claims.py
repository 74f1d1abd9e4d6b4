"""What the manifest claims, beside what the README says of it."""

import json
import re
from pathlib import Path

from dovetail import Descriptor, layers

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
    section = text.split("### Kinds that are left\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE)
    assert [kind for kind, _ in rows] == sorted(of_the_core() - claimed())
    assert all(why.strip() for _, why in rows)


def test_all_that_is_claimed_is_of_the_core():
    assert claimed() <= of_the_core()
