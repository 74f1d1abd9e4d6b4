import re
import subprocess
import sys
import tomllib

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
