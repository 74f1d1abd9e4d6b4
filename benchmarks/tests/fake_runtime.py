"""A fake runtime for the model of the fixture `adder`: right, or as its option `behaviour` says."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import numpy as np


class Session:
    def __init__(self, model: str, shapes: dict[str, list[int]], threads: int, options: dict[str, Any]) -> None:
        self.behaviour, self.calls = options.get("behaviour", ""), 0
        self.begun = time.monotonic()
        if self.behaviour == "crash":
            print("the vendor's last words", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.behaviour == "hang":
            time.sleep(1000)
        if self.behaviour == "raise":
            raise ValueError("no such operator")

    def bind(self, feeds: dict[str, Any]) -> Any:
        def call() -> list[Any]:
            self.calls += 1
            if self.behaviour == "crash later" and time.monotonic() - self.begun > 0.5:
                os._exit(3)
            total = feeds["a"] + feeds["b"]
            if self.behaviour == "drift" and self.calls > 1:
                total = total + 1
            if self.behaviour == "slow":
                time.sleep(0.002)
            return [total * (1.5 if self.behaviour == "disagree" else 1), -total]

        return call

    def outputs(self, result: Any) -> list[Any]:
        return [np.asarray(array) for array in result]

    def facts(self) -> dict[str, Any]:
        return {}
