"""Every conformance test of dovetail, run on this backend. `dovetail conform CpuAcme` runs the same without pytest."""

import pytest

from dovetail_acme import AcmeBackend

from dovetail_sdk.conformance import BackendConformance


class TestAcme(BackendConformance):
    @pytest.fixture
    def backend(self):
        return str(AcmeBackend().id)
