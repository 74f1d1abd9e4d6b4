"""Set up the workspace in .venv, then do something in it.

Needs Python 3.11 or newer, a C and a C++ compiler, on a POSIX system.

python3 dev.py demo                     recognise handwritten digits, showing each layer's backend
python3 dev.py test [pytest arguments]  run the tests; --all: with the slow ones, as CI does
python3 dev.py lint                     ruff and mypy
python3 dev.py bench [arguments]        measure call and layer overhead beside other runtimes
python3 dev.py aarch64 [arguments]      build for AArch64, run its Python emulated with arguments
python3 dev.py bench NAME [arguments]   run benchmarks/NAME.py; models: beside other runtimes
python3 dev.py fuzz [arguments]         load and run mutated models: --minutes 10; see --help
python3 dev.py sanitize [arguments]     tests with ASan, UBSan; --quick: some; else Python arguments
python3 dev.py simulate [arguments]     tests of GpuAcc's kernels on a simulator; finds stray ones
python3 dev.py wheels [arguments]       build sdists and wheels of all members into dist; see --help
python3 dev.py setup                    only set up
python3 dev.py COMMAND --help           say more of one of these; sets up and builds nothing

Only the standard library is imported here, and the file parses on an old Python, so that it can say
what is missing.
"""

import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STATE = VENV / "dovetail-dev"  # stamps and logs: they go when .venv goes
OLDEST = (3, 11)
TAIL = 50  # lines of a failed step's output that are shown

# What a member's binaries are made of. Python sources are absent: the installation is editable, so
# they are never stale.
COMPILED = {".pyx", ".pxd", ".pxi", ".c", ".cc", ".cpp", ".h", ".hpp", ".S", ".inc"}
BUILD_FILES = {"pyproject.toml", "setup.py", "setup.cfg", "MANIFEST.in"}
# What one member's build reads from another member's package.
PUBLIC = {".pxd", ".h", ".hpp"}
PUBLIC_FILES = {"dovetail_build"}
SKIPPED = {"build", "dist", "tests", "__pycache__"}  # tests may hold C of their own: it goes into no member
ENVIRONMENT = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS")
NATIVE_ONLY = "DOVETAIL_NATIVE_ONLY"  # has a member optimize what this machine runs, and the rest not


def stop(sentence: str) -> None:
    """End with one sentence that names what is missing and the next step."""
    sys.stdout.flush()
    sys.stderr.write("dev.py: " + sentence + "\n")
    raise SystemExit(1)


class Progress:
    """Print "name: doing ... 3.2 s" around a step."""

    def __init__(self, text: str):
        self.text = text

    def __enter__(self) -> None:
        self.start = time.monotonic()
        print(self.text, "... ", end="", flush=True)

    def __exit__(self, failed: object, *_: object) -> None:
        print("failed" if failed else "%.1f s" % (time.monotonic() - self.start), flush=True)


# --- the Python that runs this file ---------------------------------------------------------------


def newer_python() -> "str | None":
    """Find an interpreter on PATH that is recent enough and can make environments.

    Shims that do not run are passed over.
    """
    probe = "import ensurepip, sys, venv; sys.exit(sys.version_info < %r)" % (OLDEST,)
    for minor in range(15, OLDEST[1] - 1, -1):
        found = shutil.which("python3.%d" % minor)
        if found and subprocess.call([found, "-c", probe], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0:
            return found
    return None


def require_python() -> None:
    """Continue under Python 3.11 or newer, or explain."""
    if sys.version_info >= OLDEST:
        return
    found = newer_python()
    if found is None:
        stop(
            "this is Python %d.%d and no python3.11 or newer is on PATH; install Python 3.11 or newer "
            "(Debian, Ubuntu: apt install python3.11 python3.11-venv python3.11-dev) and start dev.py with it."
            % sys.version_info[:2]
        )
    print("dev.py: Python %d.%d is too old, continuing with %s" % (sys.version_info[:2] + (found,)), flush=True)
    os.execv(found, [found, *sys.argv])


def require_venv() -> None:
    """Explain a Python whose distribution left out the modules that make environments."""
    for module in ("venv", "ensurepip"):
        try:
            __import__(module)
        except ImportError:
            stop(
                "this Python has no '%s' module, which makes the environment; install it (Debian, Ubuntu: apt install "
                "python%d.%d-venv) and start dev.py again." % ((module,) + sys.version_info[:2])
            )


def require_compiler() -> None:
    """Explain a missing C compiler or missing Python headers before a build fails over them."""
    configured = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(configured) is None:
        other = None if os.environ.get("CC") else next(filter(shutil.which, ("cc", "gcc", "clang")), None)
        if other is None:
            stop(
                "no C compiler ('%s') is on PATH; install one (Debian, Ubuntu: apt install g++, which brings gcc along) "
                "or name yours in CC, and start dev.py again." % configured
            )
        os.environ["CC"] = other
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    if not header.exists():
        stop(
            "Python's C headers are missing (%s); install them (Debian, Ubuntu: apt install python%d.%d-dev) "
            "and start dev.py again." % ((header,) + sys.version_info[:2])
        )


def compiles_cpp(command: str) -> bool:
    """Tell whether this compiler takes C++ with the standard headers: the driver alone does not."""
    words = shlex.split(command)
    if not words or shutil.which(words[0]) is None:
        return False
    check = [*words, "-std=c++17", "-x", "c++", "-fsyntax-only", "-"]
    done = subprocess.run(check, input=b"#include <cstddef>\n", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


def require_cpp_compiler() -> None:
    """Explain a C++ compiler that is missing or incomplete before minutes of building."""
    configured = os.environ.get("CXX") or sysconfig.get_config_var("CXX") or "c++"
    if compiles_cpp(configured):
        return
    other = None if os.environ.get("CXX") else next(filter(compiles_cpp, ("c++", "g++", "clang++")), None)
    if other is None:
        stop(
            "no C++ compiler ('%s') works here, which CpuAcc needs; install one (Debian, Ubuntu: apt install g++) "
            "or name yours in CXX, and start dev.py again." % configured
        )
    os.environ["CXX"] = other


# --- running things quietly -----------------------------------------------------------------------


def quietly(name: str, *command: object) -> None:
    """Run a command with its output in a log; show the log's tail if it fails."""
    STATE.mkdir(parents=True, exist_ok=True)
    log = STATE / (name + ".log")
    with log.open("wb") as output:
        code = subprocess.call(
            [str(word) for word in command],
            cwd=str(ROOT),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, DIST_EXTRA_CONFIG=str(build_config())),
        )
    if code:
        raise subprocess.CalledProcessError(code, name, log)


def build_config() -> Path:
    """Write the setuptools settings of a build here: compile a member's extensions side by side."""
    path = STATE / "build.cfg"
    path.write_text("[build_ext]\nparallel = %d\n" % usable_cores())
    return path


def usable_cores() -> int:
    """Count the processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2


def without_traceback(lines: "list[str]") -> "list[str]":
    """Drop the stack of setuptools and pip, under which the compiler's message would be lost."""
    kept, frame = [], None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if re.match(r'\s*File ".*", line \d+', line):
            frame = indent
        elif frame is None or indent <= frame:
            frame = None
            kept.append(line)
    return kept


def step(text: str, name: str, *command: object) -> None:
    """Run one quiet command with a progress line; on failure stop, with the last output lines."""
    try:
        with Progress(text):
            quietly(name, *command)
    except subprocess.CalledProcessError as failure:
        lines = without_traceback(failure.output.read_text("utf-8", "replace").splitlines())
        print("\n".join("    " + line for line in lines[-TAIL:]), flush=True)
        stop("'%s' failed, see above (all of it: %s); fix the cause and start dev.py again." % (text, failure.output))


def pip(text: str, name: str, *arguments: object) -> None:
    """Install with the environment's pip; the user's own pip settings stand."""
    step(text, name, PYTHON, "-m", "pip", "install", *arguments)


# --- setting up -----------------------------------------------------------------------------------


def configuration(folder: Path) -> dict:
    """Read a pyproject.toml."""
    import tomllib  # here: an older Python has none, and must get as far as the explanation

    with (folder / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


def distribution(requirement: str) -> str:
    """Name the distribution of a requirement, normalized as PEP 503 says."""
    return re.sub(r"[-_.]+", "-", re.match(r"[A-Za-z0-9._-]+", requirement)[0]).lower()


class Member:
    """One folder of the workspace with a distribution of its own."""

    def __init__(self, folder: str):
        self.folder = folder
        self.path = ROOT / folder
        config = configuration(self.path)
        self.name = distribution(config["project"]["name"])
        self.requires = config["project"].get("dependencies", [])
        self.test_requires = config["project"].get("optional-dependencies", {}).get("test", [])
        self.build_requires = {distribution(text) for text in config["build-system"]["requires"]}
        self.stamp = STATE / (folder.replace("/", "-") + ".stamp")

    def files(self, suffixes: set, names: set) -> "list[Path]":
        """List the sources with these suffixes or names, build products left out.

        A name is that of the file or of its folder.
        """
        return [
            path
            for path in sorted(self.path.rglob("*"))
            if (path.suffix in suffixes or names.intersection((path.name, path.parent.name)))
            and path.is_file()
            and not SKIPPED.intersection(path.relative_to(self.path).parts[:-1])
        ]

    def digest(self, members: "list[Member]") -> str:
        """Hash all that the installed binaries depend on.

        This includes the interface of the members that the build reads.
        """
        sources = self.files(COMPILED, BUILD_FILES)
        for other in members:
            if other is not self and other.name in self.build_requires:
                sources += other.files(PUBLIC, PUBLIC_FILES)
        total = hashlib.sha256(repr([str(ROOT), *map(os.environ.get, ENVIRONMENT)]).encode())
        total.update((STATE / "tools.stamp").read_bytes())
        for path in sources:
            total.update(("%s\0" % path.relative_to(ROOT).as_posix()).encode() + hashlib.sha256(path.read_bytes()).digest())
        return total.hexdigest()

    def products(self) -> dict:
        """Identify the binaries in the source tree: map name to size and time of change."""
        found = self.files({".so", ".pyd"}, set())
        return {path.relative_to(self.path).as_posix(): [path.stat().st_size, path.stat().st_mtime_ns] for path in found}

    def shortens(self) -> bool:
        """Tell whether its build has a shorter form, for this machine alone."""
        setup = self.path / "setup.py"
        return setup.exists() and NATIVE_ONLY in setup.read_text("utf-8")

    def install(self, members: "list[Member]", native_only: bool = False) -> None:
        """Build and install in editable form, unless exactly this was built and is still there.

        With `native_only` a member that has a shorter build is built so, unless it was built whole:
        what it has for other machines is there, but slow. Without, it is built whole.
        """
        digest = self.digest(members)
        shorter = digest + " " + NATIVE_ONLY if native_only and self.shortens() else digest
        known = json.loads(self.stamp.read_text()) if self.stamp.exists() else None
        if known in ([digest, self.products()], [shorter, self.products()]):
            return
        self.stamp.unlink(missing_ok=True)
        for product in self.products():  # else the binary of a source that is gone would still be imported
            (self.path / product).unlink()
        # Cython goes by times of change, and a source that was moved into place keeps its old one.
        shutil.rmtree(str(self.path / "build"), ignore_errors=True)
        # One call per member: pip builds every wheel of a call before it installs any, so core's
        # headers would not be found.
        text = self.folder + (": building" if self.files(COMPILED, set()) else ": installing")
        if shorter != digest:
            text += " for this machine"
            os.environ[NATIVE_ONLY] = "1"
        try:
            pip(text, self.stamp.stem, "--no-build-isolation", "--no-deps", "-e", self.path)
        finally:
            os.environ.pop(NATIVE_ONLY, None)
        self.stamp.write_text(json.dumps([shorter, self.products()]))


def make_environment() -> None:
    """Create .venv, or make it anew where a creation was interrupted or its Python is gone."""
    stamp = STATE / "environment.stamp"
    if PYTHON.exists() and stamp.exists() and stamp.read_text() == sys.version:
        return
    require_venv()
    import venv

    with Progress(".venv: creating with Python %d.%d.%d" % sys.version_info[:3]):
        venv.create(str(VENV), with_pip=True, clear=True, symlinks=True)
        STATE.mkdir(parents=True)
        stamp.write_text(sys.version)


def wait_for_others() -> int:
    """Lock the checkout until the returned file descriptor is closed.

    Two dev.py then never build into it at once.
    """
    folder = os.open(str(ROOT), os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with Progress("waiting for another dev.py to finish setting up"):
            fcntl.flock(folder, fcntl.LOCK_EX)
    return folder


def setup(groups: "list[str]", build: bool = True, for_demo: bool = False) -> None:
    """Bring .venv up to date: tools, third-party requirements, then the members in their order.

    For the demo alone what it runs without is left out, and the rest is built for this machine.
    """
    if build:
        require_compiler()
        require_cpp_compiler()
    lock = wait_for_others()
    try:
        install(groups, build, for_demo)
    finally:
        os.close(lock)


def install(groups: "list[str]", build: bool, for_demo: bool = False) -> None:
    """Install what is missing or out of date."""
    make_environment()
    config = configuration(ROOT)
    workspace = config["tool"]["dovetail"]["workspace"]
    members = [Member(folder) for folder in workspace["members"]]
    ours = {member.name for member in members}

    def third_party(requirements):
        return sorted({text for text in requirements if distribution(text) not in ours})

    wanted = {"tools": config["dependency-groups"]["build"]}
    wanted["requirements"] = third_party(need for member in members for need in member.requires)
    wanted.update((group, config["dependency-groups"][group]) for group in groups)
    if "test" in groups:
        wanted["test"] = wanted["test"] + third_party(need for member in members for need in member.test_requires)
    for name, requirements in wanted.items():
        stamp = STATE / (name + ".stamp")
        if requirements and not (stamp.exists() and json.loads(stamp.read_text()) == requirements):
            pip("%s: %s" % (name, ", ".join(map(distribution, requirements))), name, *requirements)
            stamp.write_text(json.dumps(requirements))
    if build:
        for member in members:
            if not (for_demo and member.folder in workspace["not_in_the_demo"]):
                member.install(members, native_only=for_demo)


# --- the commands ---------------------------------------------------------------------------------


def run(*command: object) -> int:
    """Run a command of the environment from the root, output shown; return its exit code."""
    sys.stdout.flush()
    return subprocess.call([str(PYTHON), *map(str, command)], cwd=str(ROOT))


def demo(arguments: "list[str]") -> int:
    """Recognise handwritten digits."""
    setup(["demo"], for_demo=True)
    return run("examples/digits/run.py", *arguments)


def test(arguments: "list[str]") -> int:
    """Run the tests: a process for each core where nothing but options of whole runs was given."""
    setup(["demo", "test", *(["serve", "wheels"] if "--all" in arguments else [])])
    whole = all(one in ("--all", "-q", "-x") or one.startswith("--within=") for one in arguments)
    # A file stays in one process: what its tests share is made once.
    spread = ["-n", str(usable_cores()), "--dist", "loadfile"] if whole else []
    return run("-m", "pytest", *spread, *arguments)


def lint(arguments: "list[str]") -> int:
    """Run every check, also after one has failed. Nothing is built: mypy reads the sources."""
    setup(["test", "lint"], build=False)
    checks = (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"])
    failed = [run("-m", *check, *arguments) for check in checks]
    for folder in sorted({path.parent for path in (ROOT / "examples").glob("*/*.py")}):  # modules of one name, each alone
        scripts = sorted(str(path) for path in folder.glob("*.py") if path.name != "train.py")  # which takes torch
        failed.append(run("-m", "mypy", "--ignore-missing-imports", "--allow-subclassing-any", *scripts))
    return max(failed)


def bench(arguments: "list[str]") -> int:
    """Run the benchmark that the first argument names, or measure call and layer overhead."""
    names = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
    name, rest = "overhead", arguments
    if arguments and not arguments[0].startswith("-"):
        name, rest = arguments[0], arguments[1:]
    if name not in names:
        stop("there is no benchmark '%s'; choose one of %s." % (name, ", ".join(names)))
    setup(["bench", *(["serve"] if name == "serving" else [])])
    return run("benchmarks/%s.py" % name, *rest)


def aarch64(arguments: "list[str]") -> int:
    """Build for AArch64 and run a Python there."""
    setup([])
    return run("tools/aarch64.py", *arguments)


def fuzz(arguments: "list[str]") -> int:
    """Load and run mutated model files in children, and compare what ran with onnxruntime."""
    setup(["demo", "bench"])
    return run("-m", "tools.fuzz", *arguments)


def sanitize(arguments: "list[str]") -> int:
    """Build with AddressSanitizer and UndefinedBehaviorSanitizer and run tests with that."""
    setup(["demo", "test"])
    return run("tools/sanitize.py", *arguments)


def simulate(arguments: "list[str]") -> int:
    """Run tests of GpuAcc's kernels on a simulated device."""
    setup(["demo", "test"])
    chosen = any("cl_backend" in argument for argument in arguments)
    return run("-m", "pytest", "-p", "tools.simulate", *([] if chosen else ["cl_backend/tests"]), *arguments)


def wheels(arguments: "list[str]") -> int:
    """Build what is released into dist; nothing of ours need be installed for it."""
    setup([], build=False)
    return run("tools/wheels.py", *arguments)


def set_up(_: "list[str]") -> int:
    """Only set up."""
    setup(["demo", "test"])
    return 0


def main() -> int:
    """Run the command that the arguments name."""
    commands = {
        "demo": demo,
        "test": test,
        "lint": lint,
        "bench": bench,
        "aarch64": aarch64,
        "fuzz": fuzz,
        "sanitize": sanitize,
        "simulate": simulate,
        "wheels": wheels,
        "setup": set_up,
    }
    name, *arguments = sys.argv[1:] or ["help"]
    if name in ("help", "-h", "--help"):
        print(__doc__)
        return 0 if len(sys.argv) > 1 else 2
    if name not in commands:
        stop("there is no command '%s'; choose one of %s." % (name, ", ".join(commands)))
    from tools import command_help

    if command_help.is_asked(name, arguments):
        print(command_help.help_of(name, arguments, __doc__, commands[name].__doc__))
        return 0
    require_python()
    return commands[name](arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
