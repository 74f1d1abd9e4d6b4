"""The best classes, and what their scores are."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import dovetail
from dovetail import DType, Network, Quantization
from dovetail.layers import Softmax
from dovetail.optimizer import TensorSpec
from dovetail_sdk.answers import MAX_ROWS, Answers, Scores, answers_table, class_count, kinds_of_scores


def spec_of(array: np.ndarray, dtype: DType | None = None, quantization: Quantization | None = None) -> TensorSpec:
    return TensorSpec("y", array.shape, dtype or DType.of(array.dtype), quantization)


def cells(answers: Answers) -> list[list[str]]:
    stream = io.StringIO()
    Console(file=stream, markup=False, highlight=False, emoji=False, width=120).print(answers_table(answers))
    return [line.split() for line in stream.getvalue().splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        ((1, 2), 2),
        ((8, 1000), 1000),
        ((1, 1000, 1, 1), 1000),
        ((1, 1, 1, 7), 7),
        ((1, 1), None),
        ((5,), None),
        ((0, 5), None),
        ((3, 1, 7, 1), None),
        ((1, 3, 4), None),
        ((2, 1, 128), None),
        ((1, 10, 1), None),
        ((1, 1, 1, 1, 10), None),
        ((1, 0), None),
        ((), None),
    ],
)
def test_which_outputs_look_like_scores(shape: tuple[int, ...], count: int | None) -> None:
    assert class_count(shape) == count


def test_kinds_of_scores_by_the_layers_before() -> None:
    net = Network()
    x = net.input("x", (1, 6))
    expected = {
        "plain": (x, "logit"),
        "rectified": (net.relu(x), "logit"),
        "soft": (net.softmax(x), "probability"),
        "reshaped": (net.reshape(net.softmax(x), (1, 6, 1)), "probability"),
        "logarithms": (net.add(Softmax(log=True), x, name="log").output, "log probability"),
        "several": (net.sigmoid(x), "probability"),
        "sum": (net.addition(net.softmax(x), x), "logit"),
    }
    for name, (slot, _) in expected.items():
        net.output(slot, name)
    assert kinds_of_scores(net) == {name: kind for name, (_, kind) in expected.items()}


def test_what_may_be_fed_to_the_next_run_is_no_score() -> None:
    """An output of the shape and type of an input: a state, or an input without its noise."""
    net = Network()
    x, state, sequence = net.input("x", (1, 6)), net.input("state", ("N", 9)), net.input("sequence", (1, 1, 8))
    outputs = {
        "logits": net.fully_connected(x, np.ones((3, 6), np.float32)),
        "clean": net.relu(x),
        "probabilities": net.softmax(x),
        "next": net.tanh(state),
        "gates": net.sigmoid(net.concat([state, state], axis=1)),
        "hidden": net.relu(net.fully_connected(net.reshape(sequence, (1, 8)), np.ones((7, 8), np.float32))),
        "encoded": net.relu(sequence),
    }
    outputs["hidden"] = net.reshape(outputs["hidden"], (1, 1, 7))
    for name, slot in outputs.items():
        net.output(slot, name)
    feeds = {"x": np.ones((1, 6), np.float32), "state": np.ones((2, 9), np.float32), "sequence": np.ones((1, 1, 8), np.float32)}

    def named(found: list[Answers]) -> list[str]:
        return [one.output for one in found]

    with dovetail.load(net, backends="CpuRef") as loaded:
        results = loaded.run(feeds)
        scores = Scores(net, loaded)
        assert named(scores.best(results, feeds, {}, 2)) == ["logits", "probabilities", "gates"]
        assert named(scores.best(results, feeds, {"clean": list("abcdef")}, 2)) == ["logits", "clean", "probabilities", "gates"]
        assert scores.best(results, feeds, {}, 0) == []
        without = Scores(net, loaded, ["logits"])
        assert named(without.best(results, feeds, {"logits": list("abc")}, 2)) == ["probabilities", "gates"]
        assert (scores.kind_of_first(), without.kind_of_first()) == ("logit", "probability")
    states = Network()
    states.output(states.tanh(states.input("state", ("N", 9))), "next")
    with dovetail.load(states, backends="CpuRef") as loaded:
        assert Scores(states, loaded).kind_of_first() == ""
        results = loaded.run({"state": np.ones((3, 9), np.float32)})
        assert Scores(states, loaded).best(results, {"state": np.ones((3, 9), np.float32)}, {}, 5) == []


def test_quantized_scores_are_real_numbers() -> None:
    scores = np.array([[-128, -36, 127]], np.int8)
    spec = spec_of(scores, quantization=Quantization.per_tensor(1 / 256, -128))
    answers = Answers.of(spec, scores, "probability", ("a", "b", "c"), 2)
    assert [(one.number, one.label, one.score, one.stored) for one in answers.rows[0]] == [
        (2, "c", 255 / 256, 127),
        (1, "b", 92 / 256, -36),
    ]
    assert cells(answers)[0] == ["y:", "row", "class", "stored", "probability", "label"]
    assert cells(answers)[2] == ["0", "2", "127", "0.9961", "c"]


def test_scores_quantized_by_class_are_compared_as_real_numbers() -> None:
    scores = np.array([[100, 60, 10]], np.uint8)
    spec = spec_of(scores, quantization=Quantization.per_axis((0.5, 1.0, 8.0), (0, 0, 0), axis=1))
    answers = Answers.of(spec, scores, "logit", (), 3)
    assert [(one.number, one.score) for one in answers.rows[0]] == [(2, 80.0), (1, 60.0), (0, 50.0)]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[0.2, 0.3, 0.5]], "probability"),
        ([[0.2, 0.3, 0.5], [1, 0, 0]], "probability"),
        ([[0.2, 0.3, 0.5], [1, 1, 0]], "logit"),
        ([[-0.5, 0.5, 1.0]], "logit"),
        ([[np.nan, 0.5, 0.5]], "logit"),
        ([[np.inf, 0.5, 0.5]], "logit"),
        ([[3.0, 4.0, 5.0]], "logit"),
    ],
)
def test_what_looks_like_probabilities_is_taken_for_such(values: Any, kind: str) -> None:
    array = np.array(values, np.float32)
    assert Answers.of(spec_of(array), array, "logit", (), 1).kind == kind


def test_integers_that_stand_for_nothing_are_values() -> None:
    array = np.array([[3, 9, 4]], np.int64)
    answers = Answers.of(spec_of(array), array, "logit", (), 1)
    assert (answers.kind, answers.rows[0][0].score, answers.rows[0][0].stored) == ("value", 9.0, None)


def test_bits_of_bfloat16_are_numbers() -> None:
    bits = (np.float32([[-1, 3]]).view(np.uint32) >> 16).astype(np.uint16)
    answers = Answers.of(spec_of(bits, DType.BFLOAT16), bits, "logit", (), 1)
    assert (answers.rows[0][0].number, answers.rows[0][0].score) == (1, 3.0)


def test_what_is_no_number_comes_last_and_is_null_in_json() -> None:
    array = np.array([[np.nan, -1.0]], np.float32)
    answers = Answers.of(spec_of(array), array, "logit", (), 2)
    assert answers.as_dict()["classes"] == [
        [{"class": 1, "label": None, "score": -1.0}, {"class": 0, "label": None, "score": None}]
    ]


def test_the_table_is_cut_after_some_rows() -> None:
    array = np.eye(20, dtype=np.float32)
    lines = cells(Answers.of(spec_of(array), array, "logit", (), 1))
    assert len([line for line in lines if line[-1:] == ["1"]]) == MAX_ROWS
    assert lines[-1] == ["..."]
