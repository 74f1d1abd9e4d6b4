"""Build the workloads; everything else stands in pyproject.toml."""

from dovetail.building import setup_backend

setup_backend("dovetail_reference", include_dirs=["csrc"])
