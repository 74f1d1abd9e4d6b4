"""Build the workloads; everything else stands in pyproject.toml."""

from setuptools import setup

from dovetail.building import extensions

setup(ext_modules=extensions("dovetail_reference", include_dirs=["csrc"]))
