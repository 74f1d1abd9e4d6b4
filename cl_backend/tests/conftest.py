"""An OpenCL device for the tests of this backend; without one they are skipped."""

import pytest

import dovetail
from dovetail import BackendUnavailableError, DType, Network
from dovetail_cl import GpuAccBackend
from dovetail_cl.devices import opened


@pytest.fixture(scope="session")
def backend():
    """The backend, where it has a device."""
    try:
        return GpuAccBackend()
    except BackendUnavailableError as error:
        pytest.skip(f"{error.message}; Debian's pocl-opencl-icd makes a device of the CPU")


@pytest.fixture(params=["cpu", "gpu"])
def way(request, backend, monkeypatch):
    """The backend with the kernels for each kind of device; those for GPUs run on any."""
    monkeypatch.setitem(opened(0).facts, "kind", request.param)
    return backend


@pytest.fixture(scope="session")
def run():
    """A function that runs a small network whose layers are all on the backend."""

    def run(backend, build, *inputs):
        network = Network("test")
        slots = [network.input(f"x{i}", array.shape, DType.of(array.dtype)) for i, array in enumerate(inputs)]
        results = build(network, *slots)
        results = results if isinstance(results, tuple) else (results,)
        for i, slot in enumerate(results):
            network.output(slot, name=f"y{i}")
        with dovetail.load(network, [backend]) as net:
            made = net.run({f"x{i}": array for i, array in enumerate(inputs)})
            return [made[f"y{i}"].copy() for i in range(len(results))]

    return run
