"""Build the workloads as a vendor would."""

from setuptools import setup

from dovetail_build import C_SEMANTICS, COMPILE_ARGUMENTS, extensions

setup(
    ext_modules=extensions(
        "dovetail_hard",
        sources=["csrc/test_device.c"],
        include_dirs=["csrc"],
        compile_arguments=[*COMPILE_ARGUMENTS, "-pthread"],
        link_arguments=["-pthread"],
        directives=C_SEMANTICS,
    )
)
