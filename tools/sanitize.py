"""Build core and backends with sanitizers and run tests with them: `dev.py sanitize`.

The sanitizers are AddressSanitizer and UndefinedBehaviorSanitizer.

The members' sources are copied into `.sanitized`, compiled there by scripts that add the
sanitizers' flags behind those of the members, and imported from there: the binaries of .venv stay
as they are. Reports go to files; any report fails the run, also if the test that caused it passes.
The thread pool is judged by ThreadSanitizer in its C tests, `core/tests/test_run_library.py`.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
import dev  # noqa: E402  # found by the line above

HOME = ROOT / ".sanitized"
REPORTS = HOME / "reports"
MEMBERS = ("core", "reference_backend", "neon_backend", "cl_backend", "npu_vsi_backend")
QUICK_MEMBERS = ("core", "neon_backend")
SOURCES = {".py", ".pyx", ".pxd", ".c", ".cpp", ".h"}
LEFT_OUT = shutil.ignore_patterns("build", "dist", "*.so", "*.egg-info", "__pycache__", "tests")

# -O0: half the time to compile that -O1 takes. float-cast-overflow is in no group, and vptr needs
# RTTI.
FLAGS = "-O0 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined,float-cast-overflow -fno-sanitize=vptr"
COMPILER = '#!/bin/sh\nexec {compiler} "$@" {flags}\n'
BUILD = """\
import os, runpy, sys
os.chdir(sys.argv[1])
sys.argv = ["setup.py", "build_ext", "--inplace", "-j", "{jobs}"]
runpy.run_path("setup.py", run_name="__main__")
"""

TESTS = [
    "core/tests/test_run_library.py",
    "core/tests/test_executor.py",
    "core/tests/test_guard.py",
    "core/tests/test_memory_plan.py",
]
KERNELS = ["reference_backend/tests", "neon_backend/tests"]
# A double of libOpenCL: a real one is not ours to judge. Probing needs the address space.
DRIVERS = ["cl_backend/tests/trouble", "-k", "not doctor"]


def compilers():
    """Write the scripts that compile; returns the environment that names them."""
    folder = HOME / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    cache = "ccache " if shutil.which("ccache") else ""
    found = {}
    for variable, usual in (("CC", "gcc"), ("CXX", "g++")):
        compiler = os.environ.get(variable) or usual
        if shutil.which(compiler.split()[-1]) is None:
            dev.stop(f"sanitize needs {compiler}; install gcc and g++, or name yours in {variable}.")
        script = folder / usual
        text = COMPILER.format(compiler=cache + compiler, flags=FLAGS)
        if not script.exists() or script.read_text() != text:
            script.write_text(text)
            script.chmod(0o755)
            for built in ("sources", "quick"):  # with other flags
                shutil.rmtree(str(HOME / built), ignore_errors=True)
        found[variable] = str(script)
    return found


def copy_sources(member, sources):
    """Bring a member's copy up to date; unchanged files keep their times, so none is recompiled."""
    source, target = ROOT / member, sources / member
    kept = set()
    for folder, folders, names in os.walk(source):
        skipped = LEFT_OUT(folder, folders + names)
        folders[:] = [name for name in folders if name not in skipped]
        for name in names:
            if name in skipped:
                continue
            path = Path(folder, name)
            copy = target / path.relative_to(source)
            kept.add(copy)
            if not copy.exists() or copy.read_bytes() != path.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(path), str(copy))
    for path in list(target.rglob("*")):
        is_source = path.suffix in SOURCES and "build" not in path.relative_to(target).parts
        if is_source and path.is_file() and path not in kept:
            path.unlink()
    return target


def build(members, *, scalar_only):
    """Compile what has changed; returns the folders to import from."""
    environment = dict(os.environ, **compilers())
    sources = HOME / ("quick" if scalar_only else "sources")
    if scalar_only:
        environment["DOVETAIL_NEON_SCALAR_ONLY"] = "1"
    found = []
    for member in members:
        target = copy_sources(member, sources)
        found.append(target / "src")
        environment["PYTHONPATH"] = os.pathsep.join(map(str, found))
        command = [sys.executable, "-c", BUILD.format(jobs=len(os.sched_getaffinity(0))), str(target)]
        log = HOME / (member + ".log")
        with dev.Progress(f"{member}: building with sanitizers"), log.open("wb") as output:
            code = subprocess.call(command, env=environment, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        if code:
            print("\n".join("    " + line for line in log.read_text("utf-8", "replace").splitlines()[-dev.TAIL :]))
            dev.stop(f"building {member} with sanitizers failed, see above (all of it: {log}).")
    return found


def library(compiler, name):
    """Return the path of one of the compiler's libraries."""
    path = subprocess.check_output([compiler, "-print-file-name=" + name], text=True).strip()
    if not os.path.isabs(path):
        dev.stop(f"the compiler has no {name}; install the package of its sanitizers (Debian, Ubuntu: libgcc-dev).")
    return path


def sanitized(folders):
    """Return the environment in which Python imports what was built."""
    compiler = (os.environ.get("CC") or "gcc").split()[-1]
    # libstdc++ too: Python does not link it, and AddressSanitizer looks for __cxa_throw only when
    # it starts.
    preload = [library(compiler, "libasan.so"), library(compiler, "libstdc++.so.6")]
    asan = f"detect_leaks=0:allocator_may_return_null=1:abort_on_error=1:log_path={REPORTS / 'asan'}"
    ubsan = f"print_stacktrace=1:halt_on_error=0:log_path={REPORTS / 'ubsan'}"
    return dict(
        os.environ,
        LD_PRELOAD=" ".join(preload),
        ASAN_OPTIONS=asan,
        UBSAN_OPTIONS=ubsan,
        DOVETAIL_PROBE="off",  # its child has a limit of address space, in which AddressSanitizer finds no room
        PYTHONMALLOC="malloc",  # else a whole arena of Python's is one allocation
        PYTHONPATH=os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])]),
    )


def run(environment, *arguments):
    """Run Python with these arguments."""
    print("sanitize: python " + " ".join(map(str, arguments)), flush=True)
    return subprocess.call([sys.executable, *map(str, arguments)], env=environment, cwd=str(ROOT))


def guarded(environment, operators, networks, name, isa=None):
    """Run guarded cases: tensors between inaccessible pages.

    What backends allocate lies between AddressSanitizer's red zones.
    """
    options = ["--options", f"isa={isa}"] if isa else []
    counts = ["--operators", operators, "--networks", networks, "--budget", "60m"]
    return run(environment, "-m", "dovetail_sdk", "guarded", name, *counts, *options)


def conform(environment, name):
    """Run the conformance kit with a small quarantine of freed memory, as it measures memory."""
    options = environment["ASAN_OPTIONS"] + ":quarantine_size_mb=1:thread_local_quarantine_size_kb=64"
    arguments = ["-m", "dovetail_sdk", "conform", name, "--level", "4", "--budget", "30m"]
    return run(dict(environment, ASAN_OPTIONS=options), *arguments)


def instruction_sets(environment):
    """List those that the machine has."""
    code = "from dovetail_neon.kernels import instruction_sets; print(*[n for n, here in instruction_sets().items() if here])"
    return subprocess.check_output([sys.executable, "-c", code], env=environment, text=True).split()


def reports():
    """Print what the sanitizers found, each place once; returns how many places."""
    seen = {}
    for path in sorted(REPORTS.iterdir()):
        text = path.read_text("utf-8", "replace")
        for block in re.split(r"^(?=.*(?:runtime error:|ERROR: AddressSanitizer))", text, flags=re.MULTILINE):
            first = block.partition("\n")[0]
            if "runtime error:" in first or "ERROR: AddressSanitizer" in first:
                seen.setdefault(first.partition("runtime error:")[0] or first, block)
    for block in seen.values():
        print("\n".join(block.splitlines()[:25]), flush=True)
    return len(seen)


def parsed(arguments):
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="dev.py sanitize",
        description=__doc__.partition("\n")[0],
        usage="%(prog)s [-h] [--quick | arguments of Python, such as -m pytest PATH]",
    )
    parser.add_argument("--quick", action="store_true", help="what CI runs: cases of CpuAcc's scalar instance")
    own = arguments[:1] if set(arguments[:1]) <= {"-h", "--help", "--quick"} else []
    given = parser.parse_args(own)
    given.arguments = arguments[len(own) :]  # argparse would take those that begin with a dash for its own
    return given


def main():
    """Build, run, and tell what was found."""
    given = parsed(sys.argv[1:])
    folders = build(QUICK_MEMBERS if given.quick else MEMBERS, scalar_only=given.quick)
    shutil.rmtree(str(REPORTS), ignore_errors=True)
    REPORTS.mkdir(parents=True)
    environment = sanitized(folders)
    where = "import dovetail.runtime.executor as a, dovetail_neon.kernels as b; print(a.__file__, b.__file__)"
    loaded = subprocess.check_output([sys.executable, "-c", where], env=environment, text=True).split()
    if not all(path.startswith(str(HOME)) for path in loaded):
        dev.stop(f"the sanitized binaries are not what is imported: {', '.join(loaded)}")
    if given.arguments:
        code = run(environment, *given.arguments)
    elif given.quick:
        code = guarded(environment, 400, 50, "CpuAcc")
    else:
        pytest = ["-m", "pytest", "--all", "-q", "-p", "no:cacheprovider", "-o", "timeout=900", "-o", "filterwarnings=default"]
        code = max(
            run(environment, *pytest, *TESTS),
            run(environment, *pytest, *KERNELS),
            run(environment, *pytest, *DRIVERS),
            guarded(environment, 4000, 600, "CpuRef"),
            *(guarded(environment, 4000, 600, "CpuAcc", isa) for isa in instruction_sets(environment)),
            conform(environment, "CpuRef"),
            conform(environment, "CpuAcc"),
        )
    found = reports()
    print(f"sanitize: {found} places, see above and {REPORTS}" if found else "sanitize: nothing found")
    return code or int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
