"""Build the core's extensions: the run path, and what it takes over from Python and from backends."""

import sys
from pathlib import Path

import numpy
from setuptools import Extension, setup

sys.path.insert(0, str(Path(__file__).parent / "src" / "dovetail"))
from building import COMPILE_ARGUMENTS, cython_settings

# C that has state of its own (pools, the watchdog) must be linked into one extension only.
C_MODULES = {
    "executor": ("executor", "thread_pool", "usable_cores", "watchdog"),
    "ports": (),
    "workload": ("host_copy",),
}
HEADERS = [
    *(f"src/dovetail/{name}" for name in ("abi.h", "abi.pxd")),
    *(f"src/dovetail/runtime/{name}.pxd" for name in C_MODULES),
    *(f"csrc/{name}.h" for names in C_MODULES.values() for name in names),
]

setup(
    ext_modules=[
        cython_settings(
            Extension(
                f"dovetail.runtime.{name}",
                [f"src/dovetail/runtime/{name}.pyx", *(f"csrc/{source}.c" for source in sources)],
                include_dirs=["src/dovetail", "src", "csrc", numpy.get_include()],
                depends=HEADERS,
                define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
                extra_compile_args=[*COMPILE_ARGUMENTS, "-pthread"],
                extra_link_args=["-pthread"],
            )
        )
        for name, sources in C_MODULES.items()
    ]
)
