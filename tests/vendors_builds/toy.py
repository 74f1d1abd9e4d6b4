"""A small project of a vendor, and how it is built."""

import json
import subprocess
import sys
import zipfile

FILES = {
    "pyproject.toml": """
        [build-system]
        requires = ["dovetail-build"]
        build-backend = "dovetail_build"
        [project]
        name = "dovetail-toy"
        version = "1.2.3"
        dynamic = ["dependencies", "entry-points"]
        [tool.dovetail.backend]
        package = "dovetail_toy"
        library-sources = ["csrc/*.cpp", "csrc/*.c"]
        requirements = ["toy-driver>=3"]
    """,
    "src/dovetail_toy/dovetail-backend.json": """
        {"id": "ToyNpu", "abi": [9, 9], "device": "npu", "rank": 10,
         "description": "a \\"toy\\" of 5 µW", "library": "libtoy.so"}
    """,
    "csrc/table.cpp": """
        #include "abi.h"
        #include "names.h"
        #include <map>
        #include <string>
        static std::map<std::string, int> calls;  // templates of the standard library, which must not be exported
        int visible_by_default() { return 1; }
        extern "C" __attribute__((visibility("default"))) int dovetail_open_backend_v0(void *, void *, void *) {
            return ++calls[DOVETAIL_BACKEND_ID "/" DOVETAIL_BACKEND_VERSION] + from_c();
        }
    """,
    "csrc/names.h": 'extern "C" int from_c(void);',
    "csrc/in_c.c": "int from_c(void) { int class = 0; return class; }",  # which no C++ compiler takes
}


def pip(*words, cwd):
    command = [sys.executable, "-m", "pip", *map(str, words)]
    return subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def built(source, cwd):
    """Build the wheel of a project or of an sdist."""
    done = pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", cwd / "wheels", source, cwd=cwd)
    assert done.returncode == 0, done.stderr
    (wheel,) = (cwd / "wheels").glob("*.whl")
    return wheel


def content(wheel, suffix):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(suffix)]
        return archive.read(name)


def section_of(wheel, suffix, cwd):
    """Return the manifest that a binary in a wheel carries; None if it has none."""
    (cwd / "binary").write_bytes(content(wheel, suffix))
    subprocess.run(["objcopy", "-O", "binary", "--only-section=.dovetail", "binary", "section"], cwd=cwd, check=True)
    text, _, end = (cwd / "section").read_bytes().partition(b"\0")
    assert not end.strip(b"\0")
    return json.loads(text) if text else None


def as_modules(project, **modules):
    """Make a package of Cython modules of the project; return its manifest."""
    package = project / "src" / "dovetail_toy"
    text = (project / "pyproject.toml").read_text("utf-8").partition("[tool.dovetail")[0]
    (project / "pyproject.toml").write_text(text + '[tool.dovetail.backend]\nclass = "dovetail_toy.found:Toy"\n', "utf-8")
    for name, source in modules.items():
        (package / f"{name}.pyx").write_text(source)
    (package / "__init__.py").write_text("")
    manifest = json.loads((package / "dovetail-backend.json").read_text("utf-8"))
    del manifest["library"]
    (package / "dovetail-backend.json").write_text(json.dumps(manifest | {"module": "dovetail_toy.found"}), "utf-8")
    return manifest
