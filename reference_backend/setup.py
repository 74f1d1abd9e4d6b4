"""Build the workloads; everything else stands in pyproject.toml."""

from dovetail_build import C_SEMANTICS, setup_backend

setup_backend("dovetail_reference", include_dirs=["csrc"], directives=C_SEMANTICS)
