import re
import subprocess
import sys
import tomllib

import pytest

LARGEST = 400_000  # bytes: the repository holds sources, one small model and a few pictures


def project(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]


def name_of(requirement):
    return re.match(r"[\w.-]+", requirement)[0]


def tracked(root):
    """List the files that git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return [path for name in listed.split("\0") if name and (path := root / name).is_file()]


def test_versions_agree(root, members):
    assert {folder.name: project(folder)["version"] for folder in members} == {
        folder.name: project(root)["version"] for folder in members
    }


def test_the_meta_wheel_requires_every_member_that_runs_networks(root, members):
    series = project(root)["version"].rpartition(".")[0]
    running = [name for folder in members if (name := project(folder)["name"]) != "dovetail-build"]
    assert sorted(project(root)["dependencies"]) == sorted(f"{name}=={series}.*" for name in running)


def test_the_meta_wheel_offers_what_builds_backends(root, members):
    """So that all of ours comes from where the meta-wheel does."""
    table = project(root)
    everything = [*table["dependencies"], *table["optional-dependencies"]["build"]]
    assert {name_of(need) for need in everything} == {project(folder)["name"] for folder in members}


def test_core_is_slim(root):
    assert sorted(map(name_of, project(root / "core")["dependencies"])) == ["importlib-metadata", "numpy"]


def test_core_requires_none_of_the_others(root, members):
    """Arrows point down only."""
    ours = {project(folder)["name"] for folder in members}
    config = tomllib.loads((root / "core" / "pyproject.toml").read_text("utf-8"))
    wanted = config["project"]["dependencies"] + config["build-system"]["requires"]
    assert not ours.intersection(map(name_of, wanted))


def test_a_member_says_what_it_is(root, member):
    table = project(member)
    assert (member / table["readme"]).read_text("utf-8").startswith(f"# {table['name']}\n")
    assert table["description"]
    assert table["license"] == "Apache-2.0"
    assert table["requires-python"] == project(root)["requires-python"]


def test_a_member_ships_the_licence(root, member):
    """Each sdist has the text from its member's own copy: it cannot reach above its root."""
    assert (member / "LICENSE").read_text("utf-8") == (root / "LICENSE").read_text("utf-8")


def test_no_file_is_large(root):
    files = tracked(root)
    assert root / "dev.py" in files
    assert [f"{path.relative_to(root)}: {size}" for path in files if (size := path.stat().st_size) > LARGEST] == []


def test_no_build_product_is_tracked(root):
    command = ["git", "ls-files", "-z", "--cached", "--ignored", "--exclude-standard"]
    assert subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout == ""


def test_hand_written_c_is_not_ignored(root):
    """A `*.c` in .gitignore would lose kernels without a word."""
    command = ["git", "check-ignore", "--no-index", "reference_backend/csrc/any.c", "core/csrc/any.c"]
    assert subprocess.run(command, cwd=root, check=False, capture_output=True, text=True).stdout == ""


def test_what_is_installed_fits_together():
    """Every requirement of every installed distribution is met, those of the members included."""
    done = subprocess.run([sys.executable, "-m", "pip", "check"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


PROSE = 100  # columns, as ruff holds Python's prose to; what stands behind code on its line is no prose of its own


def prose(lines, cython):
    """Yield the numbered lines of comments and docstrings; C that a Cython module holds is C."""
    in_comment = in_text = in_verbatim = False
    before = ""
    for number, line in enumerate(lines, 1):
        words, quotes = line.strip(), line.count('"""') if cython else 0
        was_text = in_text
        if quotes % 2:
            if not in_text:
                in_verbatim = before.endswith("extern from *:")
            in_text = not in_text
        if cython and not ((was_text or in_text) and in_verbatim):
            if words.startswith("#") or quotes or was_text:
                yield number, line
        elif in_comment or words.startswith(("//", "/*")):
            yield number, line
        if not cython or in_verbatim:
            opened, closed = line.rfind("/*"), line.rfind("*/")
            in_comment = opened > closed or (in_comment and closed < 0)
        before = words or before


def test_prose_fits_its_columns(root):
    long = [
        f"{path.relative_to(root)}:{number}"
        for path in tracked(root)
        if path.suffix in {".c", ".cl", ".cpp", ".h", ".pxd", ".pxi", ".pyx"}
        for number, line in prose(path.read_text("utf-8").split("\n"), path.suffix.startswith(".p"))
        if len(line) > PROSE
    ]
    assert not long


@pytest.mark.parametrize(
    ("source", "cython", "numbers"),
    [
        ("/* one\n * two */\nint x; /* behind\n   below */\n// four\nint *y;", False, [1, 2, 4, 5]),
        ('def f():\n    """One."""\n    """Two\n\n    three."""\n    return "#"\n# four', True, [2, 3, 4, 5, 7]),
        ('cdef extern from *:\n    """\n    // one\n    int x;\n    """\n    int x', True, [3]),
    ],
    ids=["C", "Cython", "C in Cython"],
)
def test_what_counts_as_prose(source, cython, numbers):
    assert [number for number, _ in prose(source.split("\n"), cython)] == numbers
