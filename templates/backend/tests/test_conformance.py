"""Run every conformance test of dovetail, as `dovetail conform CpuAcme` does without pytest."""

import pytest

from dovetail_acme import AcmeBackend

from dovetail_sdk.conformance import BackendConformance


class TestAcme(BackendConformance):
    @pytest.fixture
    def backend(self):
        return str(AcmeBackend().id)
