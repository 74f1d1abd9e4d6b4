"""Run every conformance test of dovetail, as `dovetail conform AcmeRuntime` does without pytest."""

import pytest

from dovetail_acme_runtime import AcmeBackend

from dovetail_sdk.conformance import BackendConformance

pytest.importorskip("onnxruntime", reason="AcmeRuntime wraps onnxruntime, which is not installed")


class TestAcmeRuntime(BackendConformance):
    @pytest.fixture
    def backend(self):
        return str(AcmeBackend().id)
