"""Every conformance test of dovetail, run on this backend.

`dovetail conform AcmeNpu` runs the same without pytest.
"""

import pytest

from dovetail_sdk.conformance import BackendConformance


class TestAcmeNpu(BackendConformance):
    @pytest.fixture
    def backend(self):
        return "AcmeNpu"
