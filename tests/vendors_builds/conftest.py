"""The project of a vendor that each test builds."""

import pytest

from vendors_builds.toy import FILES


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(line.removeprefix(" " * 8) for line in text.strip().splitlines()) + "\n", "utf-8")
    return folder


@pytest.fixture
def table(project, root):
    """A project whose library is a whole backend: additions and ReLU."""
    for source in (project / "csrc").iterdir():
        source.unlink()
    text = (root / "core" / "tests" / "native" / "per_layer.c").read_text("utf-8")
    (project / "csrc" / "table.c").write_text(
        f"#define ID DOVETAIL_BACKEND_ID\n#pragma GCC visibility push(default)\n{text}", "utf-8"
    )
    text = (project / "pyproject.toml").read_text("utf-8")
    (project / "pyproject.toml").write_text(text.replace('"csrc/*.cpp", ', ""), "utf-8")
    return project
