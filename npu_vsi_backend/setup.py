"""Build the model's executor and the vendor's seam; everything else stands in pyproject.toml."""

from dovetail_build import C_SEMANTICS, setup_backend

MODEL = "src/dovetail_npu_vsi/model"
OVX = "src/dovetail_npu_vsi/ovx"

setup_backend(
    "dovetail_npu_vsi",
    include_dirs=[MODEL, OVX],
    module_sources={
        "dovetail_npu_vsi.model.executor": [
            f"{MODEL}/{name}.c" for name in ("commands", "convolution", "elements", "pooling", "resampling")
        ],
        "dovetail_npu_vsi.ovx.library": [f"{OVX}/loading.c"],
    },
    directives=C_SEMANTICS,
)
