"""The error of a call that must fail."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.ground.errors import GraphError


def error_of(call: Any, *arguments: Any, **named: Any) -> GraphError:
    with pytest.raises(GraphError) as caught:
        call(*arguments, **named)
    return caught.value
