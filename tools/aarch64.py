"""Build every member for AArch64 elsewhere and run Python with them by QEMU: `dev.py aarch64`.

Three steps, each left out while what it made still holds: Debian's arm64 Python and the
requirements' wheels are fetched into `.aarch64`, the cross compiler builds the members, and their
wheels are unpacked there. The interpreter, `.aarch64/environment/bin/python`, is a script that
calls QEMU. It is `sys.executable` too: what starts another Python, as the probe and the conformance
kit do, starts an emulated one, and binfmt_misc is not needed. QEMU_CPU chooses a processor.
"""

import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
import dev  # noqa: E402  # found by the line above

HOME = ROOT / ".aarch64"
SYSTEM = HOME / "system"  # where Debian's packages are unpacked; QEMU looks there first for any absolute path
ENVIRONMENT = HOME / "environment"
PYTHON = ENVIRONMENT / "bin" / "python"

EMULATOR = "qemu-aarch64-static"
NEEDED = {
    EMULATOR: "qemu-user-static",
    "aarch64-linux-gnu-gcc": "g++-aarch64-linux-gnu",
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
}
PACKAGES = ("python3", "libpython3-dev", "libstdc++6")  # with what they depend on
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR = "http://deb.debian.org/debian"

# -0: the interpreter believes to be this script, finds pyvenv.cfg beside it, and starts it when it
# starts itself.
LAUNCHER = """\
#!/bin/sh
exec {emulator} -L '{system}' -0 "$0" '{interpreter}' "$@"
"""
BUILD_WHEEL = """\
import os, sys
from setuptools import build_meta
os.chdir(sys.argv[1])
build_meta.build_wheel(sys.argv[2])
"""
BUILD_SETTINGS = """\
[build]
build_base = {folder}
[egg_info]
egg_base = {folder}
[build_ext]
parallel = {jobs}
"""


def missing() -> str | None:
    """Say in one sentence what this machine lacks, and how to install it."""
    release = platform.freedesktop_os_release() if sys.platform == "linux" else {}
    if release.get("ID") != "debian":
        return f"the arm64 Python and the cross compiler's C library must be of one Debian, and this is {release.get('NAME')}."
    absent = [program for program in NEEDED if shutil.which(program) is None]
    if absent:
        packages = " ".join(dict.fromkeys(NEEDED[program] for program in absent))
        return f"{' and '.join(absent)} cannot be found; apt-get install {packages} and start dev.py again."
    if not KEYRING.exists():
        return f"{KEYRING} is missing; apt-get install debian-archive-keyring and start dev.py again."
    return None


# --- the system and its Python --------------------------------------------------------------------


def private_apt(folder: Path) -> list[str]:
    """Return the start of an apt-get command that leaves this machine's own state alone.

    That state is its packages, lists and architectures.
    """
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(f"deb [arch=arm64 signed-by={KEYRING}] {MIRROR} {release} main\n")
    settings = {
        "Dir::State": folder,
        "Dir::State::Lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",  # another user could not write below a home folder
        "Debug::NoLocking": "true",
    }
    return ["apt-get", "-q", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]


def make_system() -> None:
    """Unpack the packages of an arm64 Debian that Python and its extensions need."""
    stamp = HOME / "system.stamp"
    wanted = json.dumps([platform.freedesktop_os_release()["VERSION_CODENAME"], *PACKAGES])
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    folder = HOME / "apt"
    apt = private_apt(folder)
    dev.step("aarch64: fetching Debian's list of packages", "aarch64-list", *apt, "update", "--error-on=any")
    dev.step("aarch64: fetching an arm64 Python", "aarch64-packages", *apt, "-y", "--download-only", "install", *PACKAGES)
    unpack = 'for package in "$1"/*.deb; do dpkg-deb -x "$package" "$2" || exit; done'
    dev.step("aarch64: unpacking", "aarch64-unpack", "sh", "-c", unpack, "sh", folder / "cache" / "archives", SYSTEM)
    shutil.rmtree(folder)
    stamp.write_text(wanted)


def version() -> str:
    """Return the arm64 Python's version, as in "3.11"."""
    return (SYSTEM / "usr" / "bin" / "python3").readlink().name.removeprefix("python")


def site_packages() -> Path:
    """Return the folder of the environment's packages."""
    return ENVIRONMENT / "lib" / f"python{version()}" / "site-packages"


def make_environment(members: "list[dev.Member]") -> None:
    """Lay out a virtual environment around the launcher with the members' requirements."""
    ours = {member.name for member in members}
    wanted = sorted({need for member in members for need in member.requires if dev.distribution(need) not in ours})
    stamp = ENVIRONMENT / "requirements.stamp"
    if stamp.exists() and stamp.read_text() == json.dumps(wanted):
        return
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    PYTHON.parent.mkdir(parents=True)
    interpreter = SYSTEM / "usr" / "bin" / f"python{version()}"
    PYTHON.write_text(LAUNCHER.format(emulator=shutil.which(EMULATOR), system=SYSTEM, interpreter=interpreter))
    PYTHON.chmod(0o755)
    (ENVIRONMENT / "pyvenv.cfg").write_text(f"home = {interpreter.parent}\ninclude-system-site-packages = false\n")
    minor = int(platform.libc_ver()[1].partition(".")[2])  # of this Debian, so of that one
    platforms = [f"--platform=manylinux_2_{glibc}_aarch64" for glibc in range(minor, 16, -1)]
    options = ("--target", site_packages(), "--only-binary", ":all:", "--implementation", "cp", "--python-version", version())
    text = "aarch64: fetching " + ", ".join(map(dev.distribution, wanted))
    dev.pip(text, "aarch64-requirements", *options, *platforms, *wanted)
    stamp.write_text(json.dumps(wanted))


# --- the members ----------------------------------------------------------------------------------


def cross_variables(settings: Path, interface: "Path | None" = None) -> dict[str, object]:
    """Return the variables under which this machine's setuptools builds for that Python.

    That Python names the cross compiler. What members are built with is imported from the folder
    `interface`, or else as it is installed here.
    """
    data = SYSTEM / "usr" / "lib" / f"python{version()}" / "_sysconfigdata__aarch64-linux-gnu.py"
    alone = HOME / "sysconfig"  # nothing else of that Python's library may be imported here
    alone.mkdir(exist_ok=True)
    shutil.copy(data, alone)
    include = SYSTEM / "usr" / "include"
    headers = (include / f"python{version()}", site_packages() / "numpy" / "_core" / "include")
    flags = [*(f"-I{folder}" for folder in headers), f"-idirafter{include}"]  # the last for what Python.h includes in turn
    return {
        "_PYTHON_SYSCONFIGDATA_NAME": data.stem,
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
        "PYTHONPATH": os.pathsep.join(map(str, filter(None, (alone, interface)))),
        "CPPFLAGS": " ".join(flags),  # they come before those of this machine's Python
        "DIST_EXTRA_CONFIG": settings,
    }


def digest(member: "dev.Member") -> str:
    """Hash all that goes into a member's wheel, Python files too.

    The sdk's takes along what lies above its folder.
    """
    total = hashlib.sha256()
    for folder in (member.path, ROOT / "templates", ROOT / "examples"):
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            products = dev.SKIPPED.intersection(name.parts[:-1]) or ".egg-info" in str(name) or path.suffix in (".so", ".pyd")
            if path.is_file() and not products:
                total.update(f"{name.as_posix()}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def wheel_folder(member: "dev.Member") -> Path:
    """Return the folder of a member's wheel."""
    return HOME / "build" / member.folder / "wheel"


def install(member: "dev.Member", members: "list[dev.Member]", interface: "Path | None" = None) -> None:
    """Build a member's wheel and unpack it, unless exactly this was done before."""
    compiled, everything = member.digest(members), digest(member)
    folder = HOME / "build" / member.folder
    stamp = ENVIRONMENT / f"{member.name}.stamp"
    found = json.loads(stamp.read_text()) if stamp.exists() else [None, None]
    if found == [compiled, everything]:
        return
    stamp.unlink(missing_ok=True)
    if found[0] != compiled:
        shutil.rmtree(folder, ignore_errors=True)
    for path in folder.glob("lib*/**/*"):  # a Python file that is gone must not come along; binaries may stay
        if path.is_file() and path.suffix != ".so":
            path.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "settings.cfg"
    settings.write_text(BUILD_SETTINGS.format(folder=folder, jobs=len(os.sched_getaffinity(0))))
    variables = [f"{name}={value}" for name, value in cross_variables(settings, interface).items()]
    wheels = wheel_folder(member)
    shutil.rmtree(wheels, ignore_errors=True)
    wheels.mkdir()
    name = f"aarch64-{member.name}"
    command = (dev.PYTHON, "-c", BUILD_WHEEL, member.path, wheels)
    dev.step(
        f"aarch64: {member.folder}: building", name, "env", "-u", "CC", "-u", "CFLAGS", "-u", "LDFLAGS", *variables, *command
    )
    for older in importlib.metadata.distributions(name=member.name, path=[str(site_packages())]):
        for file in older.files or ():
            Path(str(older.locate_file(file))).unlink(missing_ok=True)
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site_packages())
    stamp.write_text(json.dumps([compiled, everything]))


def prepare(interface: "Path | None" = None) -> None:
    """Bring everything up to date, while no other dev.py does.

    Args:
        interface: Folder to import from what members are built with; else dev.py has installed it.

    Raises:
        SystemExit: Something is missing or a step failed; a sentence on standard error says what.
    """
    reason = missing()
    if reason:
        dev.stop(reason)
    make_system()
    members = [dev.Member(folder) for folder in dev.configuration(ROOT)["tool"]["dovetail"]["workspace"]["members"]]
    make_environment(members)
    for member in members:
        install(member, members, interface)


def main() -> None:
    """Prepare, and run the emulated Python with this process's arguments."""
    lock = dev.wait_for_others()
    try:
        prepare()
    finally:
        os.close(lock)
    sys.stdout.flush()
    os.execv(PYTHON, [str(PYTHON), *sys.argv[1:]])


if __name__ == "__main__":
    main()
