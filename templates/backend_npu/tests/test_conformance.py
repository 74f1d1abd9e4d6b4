"""Every conformance test of dovetail, run on this backend.

`dovetail conform AcmeNpu --late-failure fail_at=1` runs the same without pytest.
"""

import pytest

from dovetail_sdk.conformance import BackendConformance


class TestAcmeNpu(BackendConformance):
    late_failure = {"fail_at": 1}

    @pytest.fixture
    def backend(self):
        return "AcmeNpu"
