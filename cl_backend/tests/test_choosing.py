"""Each way of computing that is offered to be tuned, on both kinds of device."""

import json
import logging

import numpy as np
import pytest

import dovetail
from dovetail import DType, Runtime
from dovetail_sdk.conformance.levels.choices import Way
from dovetail_sdk.tuning import tune


def convolved(random):
    """A convolution with an activation behind it, of odd sizes, and its input."""
    network = dovetail.Network("convolved")
    x, weights = random.standard_normal((2, 33, 13, 11), np.float32), random.standard_normal((70, 33, 3, 3), np.float32)
    network.output(network.relu(network.convolution2d(network.input("x", x.shape), weights / 9, padding=1)), "y")
    return network, x


def wide(random):
    """A convolution that Winograd's form takes, and its input."""
    network = dovetail.Network("wide")
    x, weights = random.standard_normal((1, 32, 30, 34), np.float32), random.standard_normal((64, 32, 3, 3), np.float32)
    network.output(network.convolution2d(network.input("x", x.shape), weights / 9, padding=1), "y")
    return network, x


def multiplied(random):
    """A product of matrices, and its input."""
    network = dovetail.Network("multiplied")
    x, weights = random.standard_normal((3, 67, 1030), np.float32), random.standard_normal((1030, 45), np.float32)
    network.output(network.matmul(network.input("x", x.shape), weights / 32), "y")
    return network, x


def run_in(way, network, x, **options):
    request = {"backends": ["GpuAcc"], "options": {"GpuAcc": options}, "tuned": way}
    with Runtime(threads=1) as runtime, runtime.load(network, optimize=request) as net:
        return net.run({"x": x})["y"].copy()


@pytest.mark.parametrize("made", [convolved, wide, multiplied])
@pytest.mark.parametrize("options", [{"tuning": "exhaustive"}, {"tuning": "exhaustive", "fast_math": True}], ids=["", "fast"])
def test_all_ways_give_the_same(way, made, options):
    network, x = made(np.random.default_rng(6))
    default = Way(0)
    expected = run_in(default, network, x, **options)
    assert default.maximum > 1
    for number in range(1, default.maximum):
        taken = Way(number)
        found = run_in(taken, network, x, **options)
        assert taken.taken
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, err_msg=taken.taken[0])


@pytest.mark.parametrize(
    ("level", "least", "most"), [("none", 1, 1), ("rapid", 2, 4), ("normal", 3, 12), ("exhaustive", 5, 25)]
)
def test_a_level_offers_more_than_the_one_before(backend, level, least, most):
    network, x = convolved(np.random.default_rng(7))
    asked = Way(0)
    run_in(asked, network, x, tuning=level)
    assert least <= asked.maximum <= most


def test_integers_are_left_as_they_are(backend):
    network = dovetail.Network("integers")
    network.output(network.addition(network.input("x", (4, 6), DType.INT32), network.input("z", (4, 6), DType.INT32)), "y")
    assert tune(network, "GpuAcc", threads=1, rounds=3).layers == ()


def test_what_is_found_is_taken_later_and_refused_with_a_reason_elsewhere(backend, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("DOVETAIL_CACHE_DIR", str(tmp_path))
    network, _ = multiplied(np.random.default_rng(8))
    given = {"options": {"GpuAcc": {"tuning": "rapid"}}, "threads": 1}
    report = tune(network, "GpuAcc", rounds=3, **given)
    assert [row.backend for row in report.layers] == ["GpuAcc"]
    (file,) = (tmp_path / "tuning").iterdir()
    with dovetail.load(network, "GpuAcc", **given) as net:
        assert sum(layer.tuned.startswith("tuned: ") for layer in net.placement.layers) == 1

    _, _, body = file.read_bytes().partition(b"\n")
    assert json.loads(body)["facts"]["device"]["facts"]["driver"]
    device = backend.devices()[0]
    other = type(device)(
        device.index,
        device.name,
        device.memory_bytes,
        device.half_precision,
        device.revision,
        {**device.facts, "driver": "0.9"},
    )
    monkeypatch.setattr(type(backend), "devices", lambda self: (other,))
    with caplog.at_level(logging.INFO, "dovetail"), dovetail.load(network, "GpuAcc", **given) as net:
        assert not any(layer.tuned for layer in net.placement.layers)
    assert "what was tuned for GpuAcc is not used here: device.facts.driver: " in caplog.text
    assert ", '0.9' now" in caplog.text
