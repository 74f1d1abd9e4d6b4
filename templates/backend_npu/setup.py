"""Build the library; everything else stands in pyproject.toml and in the manifest."""

from dovetail_build import setup_backend

setup_backend("dovetail_acme_npu", library_sources=["csrc/*.cpp"])
