"""Build the workloads, and the kernels once per instruction set; everything else stands in pyproject.toml."""

import os
import sysconfig

from dovetail_build import C_SEMANTICS, setup_backend

# -ffp-contract=off: what is fused is written as fma(), so that all instances of a kernel give the same bits.
# The uninitialized __Y is in GCC's own header (PR 105593).
KERNEL_ARGUMENTS = [
    "-O2",
    "-g0",
    "-std=c++17",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-fvisibility=hidden",
    "-Wno-uninitialized",
    "-Wno-maybe-uninitialized",
]
AVX512 = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx2", "-mfma", "-mprefer-vector-width=512"]
INSTRUCTION_SETS = {
    "x86_64": {
        "avx512": AVX512,
        "avx512_bf16": [*AVX512, "-mavx512bf16", "-mamx-tile", "-mamx-bf16"],
        "avx512_vnni": [*AVX512, "-mavx512vnni", "-mamx-tile", "-mamx-int8"],
        "avx2": ["-mavx2", "-mfma"],
        "avx2_vnni": ["-mavx2", "-mfma", "-mavxvnni"],
        "scalar": [],
    },
    # GCC's first scheduling pass moves loads up, for which register tiles have no room.
    "aarch64": {
        "neon": ["-fno-schedule-insns"],
        "neon_fp16": ["-march=armv8.2-a+fp16", "-fno-schedule-insns"],
        "neon_dotprod": ["-march=armv8.2-a+dotprod", "-fno-schedule-insns"],
        "scalar": [],
    },
}

machine = sysconfig.get_platform().rpartition("-")[2]
flags = INSTRUCTION_SETS.get(machine, {"scalar": []})
# One instance of the kernels instead of six: for CI's build with sanitizers, `tools/sanitize.py`.
scalar_only = bool(os.environ.get("DOVETAIL_NEON_SCALAR_ONLY"))
if scalar_only:
    flags = {"scalar": []}
sources = {f"csrc/isa/{name}.cpp": KERNEL_ARGUMENTS + more for name, more in flags.items()}
sources["csrc/isa/choice.cpp"] = [*KERNEL_ARGUMENTS, *(["-DNEON_SCALAR_ONLY"] if scalar_only else [])]

setup_backend(
    "dovetail_neon",
    include_dirs=["csrc"],
    module_sources={"dovetail_neon.kernels": list(sources)},
    source_arguments=sources,
    directives=C_SEMANTICS,
)
