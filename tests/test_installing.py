"""Install dovetail where there is no compiler, and name what is on a picture, as a user would."""

import os
import shutil
import subprocess
import sys
import time

import golden_files
import numpy as np
import pytest

LONGEST = 60  # seconds of a processor for all commands together: others may be using the machine
LABELS = 5
COREUTILS = (
    *("basename", "cat", "chmod", "cp", "cut", "date", "dirname", "echo", "env", "expr", "head", "id", "install", "ln", "ls"),
    *("mkdir", "mktemp", "mv", "nproc", "pwd", "readlink", "realpath", "rm", "sort", "stat", "tail", "test", "touch", "tr"),
    *("true", "uname", "wc"),
)
COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "ld", "as", "cython", "cythonize", "make", "cmake")
TRAP = '#!/bin/sh\necho "$0 $*" >>"{log}"\nexit 1\n'
MODEL = golden_files.MODELS / "mobilenet_v2_1.0_224_quant" / "mobilenet_v2_1.0_224_quantized_1_default_1.tflite"
PICTURES = golden_files.MODELS / "images"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def bare(tmp_path):
    """A machine without compilers: its variables, and the file that tells who called one."""
    programs, log = tmp_path / "programs", tmp_path / "compiled"
    programs.mkdir()
    for name in COREUTILS:
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    for name in COMPILERS:
        (programs / name).write_text(TRAP.format(log=log))
        (programs / name).chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DOVETAIL_"))}
    path = os.pathsep.join([str(tmp_path / "environment" / "bin"), str(programs)])
    own = {
        "PATH": path,
        "CC": str(programs / "cc"),
        "CXX": str(programs / "c++"),
        "DOVETAIL_CACHE_DIR": str(tmp_path / "cache"),
    }
    return {**kept, **own}, log


@pytest.mark.skipif(not MODEL.is_file(), reason=golden_files.ABSENT)
def test_three_commands_name_what_is_on_a_picture(release, wheels, bare, tmp_path):
    environment, log = bare

    def command(*words):
        done = subprocess.run(words, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)
        if done.returncode and "No matching distribution found" in done.stderr and not os.environ.get("CI"):
            pytest.skip(f"what dovetail requires cannot be had; is the index out of reach? {done.stderr[-300:]}")
        assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    bin_folder = tmp_path / "environment" / "bin"
    start, before = time.monotonic(), release.processor_seconds()
    command(sys.executable, "-m", "venv", "environment")
    command(bin_folder / "pip", "install", "-q", "--find-links", wheels, "dovetail==0.1.*")
    labels = PICTURES / "imagenet_labels.txt"
    shown = command(bin_folder / "dovetail", "run", MODEL, "-i", PICTURES / "cat.png", "--labels", labels)
    seconds = release.processor_seconds() - before

    rows = shown.partition("output: row")[2].splitlines()[2:]
    names = labels.read_text("utf-8").splitlines()
    labelled = [line.rpartition("  ")[2].strip() for line in rows if line.strip()]
    assert len(labelled) == LABELS, shown
    classes = [names.index(label) for label in labelled]
    with np.load(MODEL.with_suffix("").with_name(f"{MODEL.stem}.cat.golden.npz")) as golden:
        judged = golden["ref_0"].reshape(-1)
    assert classes[0] == judged.argmax()
    assert set(classes[:3]) == set(judged.argsort()[-3:])  # three cats, far ahead of the rest
    assert not log.exists(), log.read_text()
    print(f"{time.monotonic() - start:.0f} s, {seconds:.0f} s of a processor")  # shown by pytest -rP
    assert seconds < LONGEST


def test_the_trap_springs(bare):
    """Else the test above would prove nothing."""
    environment, log = bare
    assert subprocess.run(["cc", "-c", "x.c"], env=environment, check=False).returncode == 1
    assert log.read_text().endswith("cc -c x.c\n")
