"""What users may choose: the device, and how exact results are."""

import numpy as np
import pytest

import dovetail
from dovetail import BackendUnavailableError, ErrorCode, OptionError
from dovetail_cl import devices
from dovetail_cl.devices import all_facts


def two_products():
    """A network of products with a sum between them, and its float64 result for an input."""
    random = np.random.default_rng(3)
    first, second, bias = (random.standard_normal(shape, np.float32) for shape in ((40, 24), (24, 9), (24,)))
    network = dovetail.Network("products")
    inside = network.relu(network.addition(network.matmul(network.input("x", (5, 40)), first), bias))
    network.output(network.matmul(inside, second), "y")
    x = random.standard_normal((5, 40), np.float32)
    expected = np.maximum(x.astype(np.float64) @ first + bias, 0) @ second
    return network, x, expected


def loaded(network, backends=("GpuAcc",), **options):
    return dovetail.load(network, list(backends), options={"GpuAcc": options})


def test_a_device_is_named_by_number_or_by_a_part_of_its_name(backend):
    network, x, expected = two_products()
    name = all_facts()[0]["name"]
    for named in (0, "0", name, name[2:].upper(), ""):
        with loaded(network, device=named) as net:
            assert net.placement.devices[0].device.index == 0
            np.testing.assert_allclose(net.run({"x": x})["y"], expected, rtol=1e-4, atol=1e-4)


def test_a_number_is_no_part_of_a_name(backend, monkeypatch):
    monkeypatch.setattr(devices, "_found", [{"name": "Acme 3 2000"}, {"name": "Acme 1 3000"}])
    assert [devices.number_of(named) for named in (0, 1, "1", " 0 ", "3 2", "acme 1 3000", "ACME")] == [0, 1, 1, 0, 0, 1, 0]
    for named in (2, "3", "2000", "-1", "00"):
        with pytest.raises(BackendUnavailableError, match="no device is") as caught:
            devices.number_of(named)
        assert caught.value.hint == "its devices are 0: Acme 3 2000, 1: Acme 1 3000"


@pytest.mark.parametrize("named", [99, "99", -1, "01", "no device is called this"])
def test_a_device_that_is_not_there_is_told_with_those_that_are(backend, named):
    network, _, _ = two_products()
    with pytest.raises(BackendUnavailableError, match="no device is") as caught:
        loaded(network, device=named)
    assert caught.value.details["state"] == "no_device"
    assert all_facts()[0]["name"] in caught.value.hint
    with loaded(network, ["GpuAcc?", "CpuRef"], device=named) as net:
        assert {str(layer.backend) for layer in net.placement.layers} == {"CpuRef"}


@pytest.mark.parametrize(
    "options",
    [{"device": 1.5}, {"fast_math": 1}, {"precision": "int4"}, {"tuning": "wild"}, {"device": 0, "backends": ("GpuAcc:1",)}],
)
def test_a_value_that_does_not_fit_is_an_error_of_its_own(backend, options):
    with pytest.raises(OptionError) as caught:
        loaded(two_products()[0], **options)
    assert caught.value.code is ErrorCode.OPTION_INVALID


def test_float16_stands_between_layers_alone(backend):
    network, x, expected = two_products()
    with loaded(network, precision="float16") as net:
        assert sum(layer.kind == "dovetail.Cast" for layer in net.placement.layers) == 2  # where the part begins and ends
        found = net.run({"x": x})["y"]
    assert found.dtype == np.float32
    assert 1e-6 < np.abs(found - expected).max() / np.abs(expected).max() < 1e-2


@pytest.mark.parametrize("sizes", [(1, 64, 24, 24), (2, 32, 13, 17)])
@pytest.mark.parametrize("fast_math", [False, True])
def test_convolutions_keep_the_bound_of_their_error(backend, fast_math, sizes):
    """Direct sums: (depth + 2) 2^-24 of the sum of |w x|; Winograd's: 2^-17 of it."""
    random = np.random.default_rng(4)
    x, weights = random.standard_normal(sizes, np.float32), random.standard_normal((48, sizes[1], 3, 3), np.float32)
    network = dovetail.Network("convolution")
    network.output(network.convolution2d(network.input("x", x.shape), weights, padding=1), "y")
    with loaded(network, fast_math=fast_math) as net:
        found = net.run({"x": x})["y"].astype(np.float64)

    def summed(x, weights):
        padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        return np.einsum("bcyxij,ocij->boyx", windows, weights.astype(np.float64), optimize=True)

    error = np.abs(found - summed(x, weights)) / summed(np.abs(x), np.abs(weights))
    print(f"largest error: 2^{np.log2(error.max()):.1f} of the sum of |w x|")
    assert error.max() <= (2.0**-17 if fast_math else (9 * sizes[1] + 2) * 2.0**-24)
