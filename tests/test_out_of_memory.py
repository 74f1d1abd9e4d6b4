"""Check that memory running out at any moment of a load gives a typed error, not a dead process."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

ALLOCATOR = """
#include <errno.h>
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
static long left = 0;
void fail_at(long number) { left = number; }
long not_met(void) { long number = left; left = 0; return number; }
static int fails(void) { if (left > 0 && --left == 0) { errno = ENOMEM; return 1; } return 0; }
void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails() ? NULL : __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return fails() ? NULL : __libc_realloc(block, size); }
"""
LOADS = """
import ctypes, json, sys
from collections import Counter
import dovetail

allocator = ctypes.CDLL(None)
allocator.not_met.restype = ctypes.c_long

def load():
    with dovetail.load(sys.argv[1], "CpuRef"):
        pass

load()
found, number, unmet = Counter(), 1, 0
while not unmet:
    allocator.fail_at(ctypes.c_long(number))
    try:
        load()
        found["survived"] += 1
    except dovetail.DovetailError as error:
        found[error.code] += 1
    except BaseException as error:
        found[f"{type(error).__name__}: {error}"] += 1
    unmet = allocator.not_met()
    number += int(sys.argv[2])
load()
print(json.dumps([number, found]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux") or shutil.which("gcc") is None, reason="needs glibc and gcc")
def test_a_single_allocation_that_fails_anywhere_ends_the_load_alone(tmp_path):
    onnx = pytest.importorskip("onnx", reason="models are written with it")
    library = tmp_path / "failing.so"
    (tmp_path / "failing.c").write_text(ALLOCATOR)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, tmp_path / "failing.c"], check=True)
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,16,16] x) => (float[1,8,8,8] y)
        { c = Conv <pads = [1,1,1,1]> (x, w, b) r = Relu(c) y = MaxPool <kernel_shape = [2,2], strides = [2,2]> (r) }"""
    )
    rng = np.random.default_rng(1)
    for name, shape in (("w", (8, 3, 3, 3)), ("b", (8,))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(rng.random(shape, np.float32), name))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", LOADS, str(path), "1"],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"
    number, found = json.loads(done.stdout)
    assert found.pop("OUT_OF_MEMORY") > number / 2
    assert found.pop("survived") >= 1  # the last: so many allocations there are not
    assert not found, found
