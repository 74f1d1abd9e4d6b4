"""docs/layer_attributes.md: up to date, and a meaning for all that crosses into C."""

import dataclasses

import pytest
from tools.layer_attributes import PAGE, documentation, kinds, meanings, value_meanings

from dovetail.layers import ActivationFunction

KINDS = sorted(kinds(), key=lambda kind: kind.kind)


def test_the_page_is_up_to_date():
    assert PAGE.read_text("utf-8") == documentation(), "run: python -m tools.layer_attributes"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_attribute_has_a_meaning_where_it_is_declared(kind):
    names = {field.name for field in dataclasses.fields(kind) if field.name != "quantization"}
    assert names - meanings(kind).keys() == set()
    assert all(len(text) > 5 for text in meanings(kind).values())


def test_values_carry_their_comments():
    said = value_meanings(ActivationFunction)
    assert said["BOUNDED_RELU"].startswith("min(alpha, max(beta, x))")
    assert set(said) >= {member.name for member in ActivationFunction if member is not ActivationFunction.TANH}
