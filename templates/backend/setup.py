"""Build the kernels: every .pyx below src/dovetail_acme becomes an extension module."""

from dovetail_build import setup_backend

setup_backend("dovetail_acme")
