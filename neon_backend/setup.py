"""Build the workloads, and the kernels once per instruction set; pyproject.toml has the rest."""

import os
import sysconfig

from dovetail_build import C_SEMANTICS, COMPILE_ARGUMENTS, setup_backend

# -ffp-contract=off: what is fused is written as fma(), so that all instances of a kernel give the
# same bits. The uninitialized __Y is in GCC's own header (PR 105593).
KERNEL_ARGUMENTS = [
    "-O2",
    "-g0",
    "-std=c++17",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-tree-slp-vectorize",
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


def native() -> str:
    """Name the instruction set that is the fastest of this machine, as far as it can be told."""
    if machine == "aarch64":
        return "neon"
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            words = set(next((line for line in file if line.startswith("flags")), "").split())
    except OSError:
        words = set()
    for name, needed in (("avx512", {"avx512f", "avx512bw", "avx512dq", "avx512vl"}), ("avx2", {"avx2", "fma"})):
        if needed <= words:
            return name
    return "scalar"


# For `dev.py demo`, which has to be quick: the other instances are there, and slow. Of each pair of
# flags the last counts.
glue = COMPILE_ARGUMENTS
if os.environ.get("DOVETAIL_NATIVE_ONLY"):
    flags = {name: more if name == native() else [*more, "-O0"] for name, more in flags.items()}
    glue = (*glue, "-O1")
FOLDER = "src/dovetail_neon/instruction_sets"
sources = {f"{FOLDER}/{name}.cpp": KERNEL_ARGUMENTS + more for name, more in flags.items()}
sources[f"{FOLDER}/choice.cpp"] = [*KERNEL_ARGUMENTS, *(["-DACC_SCALAR_ONLY"] if scalar_only else [])]

setup_backend(
    "dovetail_neon",
    include_dirs=["src"],
    module_sources={"dovetail_neon.kernels": list(sources)},
    source_arguments=sources,
    compile_arguments=glue,
    directives=C_SEMANTICS,
)
