"""Build the driver seam; everything else stands in pyproject.toml."""

from dovetail_build import C_SEMANTICS, setup_backend

FOLDER = "src/dovetail_cl/driver"

setup_backend(
    "dovetail_cl",
    include_dirs=[FOLDER],
    module_sources={
        "dovetail_cl.driver.device": [
            f"{FOLDER}/{name}.c"
            for name in (
                "opencl",
                "signals",
                "device_handle",
                "events",
                "imports",
                "queue",
                "waiting",
                "reports",
                "times",
                "staging",
                "launch",
            )
        ]
    },
    directives=C_SEMANTICS,
)
