"""Measure whole models on dovetail and its peers: `dovetail benchmark --versus` that also takes folders. See README.md."""

import sys
from pathlib import Path

from dovetail_sdk.cli import main

PEERS = "onnxruntime,openvino,litert"


def expanded(arguments: list[str]) -> list[str]:
    """Put the models of a folder in its place; without any model, take that of the demo."""
    result: list[str] = []
    for before, argument in zip(["", *arguments], arguments, strict=False):
        is_folder = before not in ("--trace", "--json", "--peer-python") and Path(argument).is_dir()
        result += sorted(map(str, Path(argument).glob("*.onnx"))) if is_folder else [argument]
    return result if any(argument.endswith(".onnx") for argument in result) else ["digits", *result]


if __name__ == "__main__":
    given = expanded(sys.argv[1:])
    defaults = [] if any(argument.startswith("--versus") for argument in given) else ["--versus", PEERS]
    main(["benchmark", *given, *defaults], prog_name="dovetail")
