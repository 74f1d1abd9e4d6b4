from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from dovetail import Network
from dovetail_sdk.options import backend_options_option, numbers_of, one_for_open_sizes, shape_of, shapes_for, tell_assumed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x=1,3,224,224", ("x", (1, 3, 224, 224))),
        ("x=1x3x8x8", ("x", (1, 3, 8, 8))),
        ("N=1", ("N", (1,))),
        ("a=b=2", ("a=b", (2,))),
        ("empty=0", ("empty", (0,))),
    ],
)
def test_shape(text: str, expected: object) -> None:
    assert shape_of(text) == expected


@pytest.mark.parametrize("text", ["x", "x=", "=1", "x=-1", "x=1,,2", "x=1,N", "x=1.5", "x=1,", "x=²"])
def test_malformed_shape(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a shape"):
        shape_of(text)


def test_numbers() -> None:
    assert numbers_of("0.5") == (0.5,)
    assert numbers_of("123.7,116.3,-1e2") == (123.7, 116.3, -100.0)
    for text in ("", "a", "1,", "nan", "inf", "1;2"):
        with pytest.raises(click.BadParameter, match="neither a number"):
            numbers_of(text)


def test_whole_shapes_and_symbols_are_told_apart() -> None:
    network = Network("test")
    network.output(network.relu(network.input("x", ("N", 3))), "y")
    network.output(network.relu(network.input("vector", ("length",))), "z")
    assert shapes_for(network, {"N": (2,), "vector": (7,)}) == {"N": 2, "vector": (7,)}
    assert shapes_for(network, {"x": (2, 3)}) == {"x": (2, 3)}
    for name, sizes in (("M", (1,)), ("N", (1, 2)), ("y", (1,))):
        with pytest.raises(click.UsageError, match=r"inputs x, vector; symbolic sizes N, length"):
            shapes_for(network, {name: sizes})


def test_sizes_that_stay_open_are_one() -> None:
    network = Network("test")
    network.output(network.relu(network.input("x", ("N", 3, "H"))), "y")
    network.output(network.relu(network.input("z", ("N", "L"))), "w")
    assert one_for_open_sizes(network, {}) == {"N": 1, "H": 1, "L": 1}
    assert one_for_open_sizes(network, {"N": 2}) == {"H": 1, "L": 1}
    assert one_for_open_sizes(network, {"x": (2, 3, 4)}) == {"L": 1}


def test_note_on_several_open_sizes(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "dovetail"):
        tell_assumed({})
        tell_assumed({"N": 1, "the length": 1})
    assert caplog.messages == [
        "note: N, the length are open: taking N = 1, the length = 1; --shape N=8 --shape 'the length=8' for other sizes"
    ]


def test_backend_options_are_json_or_text() -> None:
    seen = []

    @click.command()
    @backend_options_option
    def command(options: object) -> None:
        seen.append(options)

    runner = CliRunner()
    given = ["--option", "AcmeNpu.latency_us=500", "--option", "AcmeNpu.state=busy", "--option", "CpuRef.list=[1, 2]"]
    assert runner.invoke(command, given).exit_code == 0
    assert runner.invoke(command, []).exit_code == 0
    assert seen == [{"AcmeNpu": {"latency_us": 500, "state": "busy"}, "CpuRef": {"list": [1, 2]}}, None]
    for wrong in ("latency_us=500", "AcmeNpu.latency_us", ".x=1", "AcmeNpu.=1"):
        result = runner.invoke(command, ["--option", wrong])
        assert result.exit_code == 2
        assert "ID.NAME=VALUE" in result.output
