"""VsiNpu against dovetail's conformance tests."""

import pytest

from dovetail_sdk.conformance import BackendConformance


class TestVsiNpu(BackendConformance):
    @pytest.fixture
    def backend(self):
        return "VsiNpu"
