import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
FENCE = re.compile(r"^```python[ \t]*(?P<options>[^\n]*)\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page):
    """List the Python examples of a page that run, each as (line of its first statement, code)."""
    text = page.read_text("utf-8")
    found = [(text.count("\n", 0, match.start("code")) + 1, match) for match in FENCE.finditer(text)]
    unknown = {match["options"].strip() for _, match in found} - {"", "no-run"}
    assert not unknown, f"{page.name}: ```python may be followed by no-run only, found {unknown}"
    return [(line, match["code"]) for line, match in found if match["options"].strip() != "no-run"]


def test_the_readme_has_an_example():
    assert blocks(ROOT / "README.md")


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples_run(page, tmp_path, monkeypatch):
    """Run a page's examples one after the other, in one namespace and an empty folder that has the digits model."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for line, code in blocks(page):
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)
