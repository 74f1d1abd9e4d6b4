"""Build the driver seam; everything else stands in pyproject.toml."""

from dovetail_build import C_SEMANTICS, setup_backend

FOLDER = "src/dovetail_cl/driver"

# Files of more than one module have no state of their own.
SOURCES = {
    "library": ("opencl", "signals"),
    "device": ("opencl", "device_handle", "events"),
    "workloads": (
        "opencl",
        "device_handle",
        "events",
        "imports",
        "queue",
        "waiting",
        "reports",
        "times",
        "staging",
        "launch",
    ),
}

setup_backend(
    "dovetail_cl",
    include_dirs=[FOLDER],
    module_sources={
        f"dovetail_cl.driver.{module}": [f"{FOLDER}/{name}.c" for name in names] for module, names in SOURCES.items()
    },
    directives=C_SEMANTICS,
)
