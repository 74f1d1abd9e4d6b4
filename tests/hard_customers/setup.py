"""Build the workloads as a vendor would."""

from setuptools import setup

from dovetail.building import COMPILE_ARGUMENTS, extensions

setup(
    ext_modules=extensions(
        "dovetail_hard",
        sources=["csrc/test_device.c"],
        include_dirs=["csrc"],
        compile_arguments=[*COMPILE_ARGUMENTS, "-pthread"],
        link_arguments=["-pthread"],
    )
)
