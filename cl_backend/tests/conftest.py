"""An OpenCL device for the tests of this backend; without one they are skipped."""

import pytest

from dovetail import BackendUnavailableError
from dovetail_cl import GpuAccBackend


@pytest.fixture(scope="session")
def backend():
    """The backend, where it has a device."""
    try:
        return GpuAccBackend()
    except BackendUnavailableError as error:
        pytest.skip(f"{error.message}; Debian's pocl-opencl-icd makes a device of the CPU")
