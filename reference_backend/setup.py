"""Build the workloads; everything else stands in pyproject.toml."""

from dovetail.building import extensions
from setuptools import setup

setup(ext_modules=extensions("dovetail_reference", include_dirs=["csrc"]))
