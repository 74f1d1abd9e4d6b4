"""Codes are documented, errors survive pickling, and each class has a code of its own family."""

import copy
import pickle
import re
from pathlib import Path

import pytest

import dovetail
from dovetail.ground import errors
from dovetail.ground.errors import DovetailError, ErrorCode

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
CLASSES = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, DovetailError)]


@pytest.mark.skipif(not PAGE.exists(), reason="docs/ is not part of the core's own sdist")
def test_the_page_lists_every_code_once_with_its_class():
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(code for code, _ in rows) == sorted(code.value for code in ErrorCode)
    for _, classes in rows:
        for name in re.findall(r"`(\w+)`", classes):
            assert issubclass(getattr(errors, name), DovetailError)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_errors_survive_pickling_and_copying(cls):
    error = cls("what happened", hint="what to do", layer="stem")
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is cls
        assert (twin.code, twin.hint, twin.details, str(twin)) == (error.code, error.hint, error.details, str(error))


def test_the_text_has_code_message_and_next_step():
    error = dovetail.InputError("input 'x' is float64", code=ErrorCode.INPUT_DTYPE, hint="convert it")
    assert str(error) == "[INPUT_DTYPE] input 'x' is float64\n  -> convert it"


def test_what_a_model_asks_for_in_vain_is_listed_within_bounds():
    def listed(*lines):
        entries = [{"op": line} for line in lines]
        return dovetail.UnsupportedModelError.listing("m.onnx", entries, lines, hint="export it anew")

    assert str(listed("Det, node 'a'")) == (
        "[MODEL_UNSUPPORTED] m.onnx asks for 1 thing that dovetail does not have:\n  Det, node 'a'\n  -> export it anew"
    )
    error = listed("x" * 400, "y" * 401, *"abc")
    assert "asks for 5 things" in error.message
    assert error.message.split("\n")[1:] == [f"  {line}" for line in ("x" * 400, "y" * 397 + "...", *"abc")]
    assert error.details["unsupported"][1] == {"op": "y" * 401}
    many, long = listed(*["z"] * 150).message.split("\n"), listed(*["z" * 400] * 50).message.split("\n")
    assert (len(many), len(long)) == (102, 27)
    assert (many[-1], long[-1]) == tuple(f"  and {left} more, all in details['unsupported']" for left in (50, 25))


def test_very_long_messages_are_cut():
    error = dovetail.GraphError("shape " + "1, " * 100_000, hint="check it", layer="stem")
    assert len(str(error)) < 20_000
    assert str(error).startswith("[GRAPH_INVALID] shape 1, 1, ")
    assert str(error).endswith("...\n  -> check it")
    whole = "x" * 1000
    assert dovetail.GraphError(whole).message == whole
