"""Settings that cannot be read, or are not the user's own."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail.ground import settings


def test_configuration_that_is_a_fifo_is_passed_over(scene, monkeypatch, caplog):
    config = scene.root / "config" / "dovetail"
    config.mkdir(parents=True)
    os.mkfifo(config / "config.toml")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config.parent))
    assert settings.configuration() == {}
    assert "no regular file" in caplog.text


def test_process_with_more_rights_does_not_obey_the_callers_home(scene, monkeypatch):
    config = scene.root / ".config" / "dovetail"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('backend_path = "/evil"\n')
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "DOVETAIL_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(scene.root))
    assert settings.configuration() == {"backend_path": "/evil"}
    assert settings.cache_folder() == str(scene.root / ".cache" / "dovetail")
    monkeypatch.setattr(settings, "is_secure", lambda: True)
    assert settings.configuration() == {}
    assert settings.cache_folder() == str(Path(pwd.getpwuid(os.geteuid()).pw_dir, ".cache", "dovetail"))


@pytest.mark.parametrize("home", ["/" + "a" * 5000, "/" + "/".join(["a" * 200] * 20), "/" + "/".join(["a" * 200] * 25)])
def test_home_that_is_too_long_is_none(scene, home):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "DOVETAIL_CACHE"))}
    for command in (["doctor"], ["quarantine", "list"]):
        done = subprocess.run(
            [sys.executable, "-m", "dovetail_sdk", *command],
            check=False,
            capture_output=True,
            text=True,
            env={**environment, "HOME": home},
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert "Traceback" not in done.stderr
