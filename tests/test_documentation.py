import re
import shlex
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from dovetail.discovery import manifest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")), *sorted(ROOT.glob("*/README.md"))]
COMMANDS = re.compile(r"^```sh\n(?P<lines>.*?)^```", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```python[ \t]*(?P<options>[^\n]*)\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)


LINKED = [
    *(*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"),
    *sorted([*(ROOT / "core/src").rglob("README.md"), *ROOT.glob("examples/*/README.md"), *ROOT.glob("templates/*/README.md")]),
]
ANY_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)", re.MULTILINE)


def blocks(page):
    """List the Python examples of a page that run, each as (line of its first statement, code)."""
    text = page.read_text("utf-8")
    found = [(text.count("\n", 0, match.start("code")) + 1, match) for match in FENCE.finditer(text)]
    unknown = {match["options"].strip() for _, match in found} - {"", "no-run"}
    assert not unknown, f"{page.name}: ```python may be followed by no-run only, found {unknown}"
    return [(line, match["code"]) for line, match in found if match["options"].strip() != "no-run"]


def commands(page):
    """List the lines of a page's ```sh blocks that call the `dovetail` command."""
    lines = "".join(match["lines"] for match in COMMANDS.finditer(page.read_text("utf-8"))).splitlines()
    return [line for line in lines if line.startswith("dovetail ")]


def test_the_readme_has_an_example():
    assert blocks(ROOT / "README.md")


def test_every_member_has_an_example(member):
    assert blocks(member / "README.md")


def anchors(page):
    """Return the names that GitHub gives the headings of a page."""
    found, counts = set(), {}
    for heading in HEADING.findall(ANY_FENCE.sub("", page.read_text("utf-8"))):
        name = re.sub(r"[^\w\- ]", "", LINK.sub("", heading).strip().lower()).replace(" ", "-")
        number = counts[name] = counts.get(name, -1) + 1
        found.add(f"{name}-{number}" if number else name)
    return found


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    lost = []
    for link in LINK.findall(ANY_FENCE.sub("", page.read_text("utf-8"))):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        is_elsewhere = re.match(r"[a-z]+:", link)
        if not is_elsewhere and not (target.exists() and (not anchor or anchor in anchors(target))):
            lost.append(link)
    assert not lost


CALLS = [(page, line) for page in PAGES for line in commands(page)]


@pytest.mark.parametrize(("page", "line"), CALLS, ids=[f"{page.parent.name}:{line.split()[1]}" for page, line in CALLS])
def test_commands_run(page, line, tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    command = [sys.executable, "-m", "dovetail_sdk", *shlex.split(line)[1:]]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples_run(page, tmp_path, monkeypatch):
    """Run a page's examples in order, in one namespace, in a folder with only the digits model."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    script = types.ModuleType("__main__")  # a script has a file, by which what a backend keeps is known
    script.__file__ = str(page)
    monkeypatch.setitem(sys.modules, "__main__", script)
    for line, code in blocks(page):
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), script.__dict__)


def test_the_guide_tables_each_field_of_a_manifest():
    """Fields are those that the reader knows, and those that it demands are marked."""
    text = (ROOT / "docs" / "writing_a_backend.md").read_text("utf-8")
    table = text.partition("| field | needed | what it says |\n|---|---|---|\n")[2].partition("\n\n")[0]
    rows = [row.split("|")[1:3] for row in table.splitlines()]
    needed = {name: how.strip() == "yes" for names, how in rows for name in re.findall(r"`(\w+)`", names)}
    assert needed == {**dict.fromkeys(manifest._REQUIRED, True), **dict.fromkeys(manifest._OPTIONAL, False)}
