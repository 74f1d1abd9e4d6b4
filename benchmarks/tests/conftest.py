from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `python benchmarks/models.py` finds what it imports

Invoke = Callable[..., Result]


@pytest.fixture
def models() -> Invoke:
    """Run the command line of `models.py` in this process; an escaping exception fails the test."""
    from versus.command import command

    def invoke(*arguments: object) -> Result:
        result = CliRunner().invoke(command, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke
