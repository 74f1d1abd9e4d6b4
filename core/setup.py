"""Build the core's extensions: the run path, and what it takes from Python and from backends."""

import runpy

import numpy
from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

# From its file: there is no core to import yet.
checking = runpy.run_path("src/dovetail/ground/compilers.py")["checking"]

# C semantics, no hidden checks. They hold for Python objects too: write x[len(x) - 1].
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": False,
}
# -ffp-contract=off: the same bits on every machine, with or without fused multiply-add. -g0: a
# tenth of the wheel.
COMPILE_ARGUMENTS = [
    *("-O3", "-g0", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-Wno-unreachable-code"),
    "-pthread",
]

# C that has state of its own (pools, the watchdog) must be linked into one extension only; what
# usable_cores remembers may be remembered twice.
C_MODULES = {
    "executor": (),
    "plans": ("executor", "plan", "spans", "thread_pool", "usable_cores", "watchdog", "worker_times"),
    "ports": (),
    "workload": ("host_copy", "spans"),
}
NATIVE = ("layer_view", "table", "questions", "device_calls")
HEADERS = [
    *(f"src/dovetail/{name}" for name in ("include/abi.h", "include/abi_layout.h", "abi.pxd")),
    *(f"src/dovetail/runtime/{name}.pxd" for name in ("plans", "ports", "workload")),
    *(f"src/dovetail/native/{name}.pxd" for name in ("layer_view", "questions", "table")),
    *(f"csrc/{name}.h" for names in C_MODULES.values() for name in names),
    "csrc/channel.h",
    "csrc/crossing.h",
    "csrc/run.h",
    "csrc/taken_sizes.h",
]


def extension(package: str, name: str, sources: tuple[str, ...] = (), libraries: tuple[str, ...] = ()) -> Extension:
    """Describe one extension of the core, with the settings above."""
    described = Extension(
        f"dovetail.{package}.{name}",
        [f"src/dovetail/{package}/{name}.pyx", *(f"csrc/{source}.c" for source in sources)],
        include_dirs=["src/dovetail/include", "src", "csrc", numpy.get_include()],
        depends=HEADERS,
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
        extra_compile_args=COMPILE_ARGUMENTS,
        extra_link_args=["-pthread"],
        libraries=list(libraries),
    )
    described.cython_directives = DIRECTIVES
    described.cython_c_in_temp = True
    return described


setup(
    cmdclass={"build": checking(build), "build_ext": checking(build_ext)},
    ext_modules=[
        *(extension("runtime", name, sources) for name, sources in C_MODULES.items()),
        extension("ground", "usable_cores", ("usable_cores",)),
        extension("runtime", "guarded_pages"),
        extension("isolation", "channel", ("channel", "crossing", "spans")),
        # dlopen lies in a library of its own before glibc 2.34.
        *(extension("native", name, libraries=("dl",) if name == "table" else ()) for name in NATIVE),
    ],
)
