"""An OpenCL device for the tests of this backend; without one they are skipped."""

import pytest

from dovetail_cl import GpuAccBackend


@pytest.fixture(scope="session")
def backend():
    """The backend, where it has a device."""
    found = GpuAccBackend()
    if not found.devices():
        pytest.skip("there is no OpenCL device; Debian's pocl-opencl-icd makes one of the CPU")
    return found
