"""Build the core's extension: the run loop and what it takes over from Python."""

import sys
from pathlib import Path

import numpy
from setuptools import Extension, setup

sys.path.insert(0, str(Path(__file__).parent / "src" / "dovetail"))
from building import COMPILE_ARGUMENTS, cython_settings

C_MODULES = ("executor", "thread_pool", "usable_cores", "watchdog")

executor = Extension(
    "dovetail.runtime.executor",
    ["src/dovetail/runtime/executor.pyx", *(f"csrc/{name}.c" for name in C_MODULES)],
    include_dirs=["src/dovetail", "src", "csrc", numpy.get_include()],
    depends=[
        *(f"src/dovetail/{name}" for name in ("abi.h", "abi.pxd", "runtime/executor.pxd")),
        *(f"csrc/{name}.h" for name in C_MODULES),
    ],
    define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
    extra_compile_args=[*COMPILE_ARGUMENTS, "-pthread"],
    extra_link_args=["-pthread"],
)

setup(ext_modules=[cython_settings(executor)])
