"""Build the core's extensions: the run loop and what it takes over from Python."""

import sys
from pathlib import Path

from setuptools import Extension, setup

sys.path.insert(0, str(Path(__file__).parent / "src" / "dovetail"))
from building import COMPILE_ARGUMENTS, COMPILER_DIRECTIVES


def extensions():
    """List the extensions; Cython and NumPy are imported here so that metadata can be read without them."""
    import numpy
    from Cython.Build import cythonize

    executor = Extension(
        "dovetail.runtime.executor",
        ["src/dovetail/runtime/executor.pyx", "csrc/executor.c", "csrc/thread_pool.c", "csrc/usable_cores.c", "csrc/watchdog.c"],
        include_dirs=["src/dovetail", "csrc", numpy.get_include()],
        depends=[
            "src/dovetail/abi.h",
            "src/dovetail/abi.pxd",
            *(f"csrc/{name}.h" for name in ("executor", "thread_pool", "usable_cores", "watchdog")),
        ],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
        extra_compile_args=[*COMPILE_ARGUMENTS, "-pthread"],
        extra_link_args=["-pthread"],
    )
    build_dir = str(Path("build") / f"cython-{sys.implementation.cache_tag}")
    return cythonize([executor], include_path=["src"], compiler_directives=COMPILER_DIRECTIVES, build_dir=build_dir, quiet=True)


setup(ext_modules=extensions())
