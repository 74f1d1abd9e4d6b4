"""Serve models over HTTP.

For example: `python run.py --model digits=../digits/digits.onnx --backend CpuAcc --backend CpuRef`.
"""

from __future__ import annotations

import argparse
from functools import partial

import uvicorn
from app import Settings, create_app

import dovetail


def main() -> None:
    """Read the command line and serve until SIGTERM or Ctrl-C, then answer what was begun."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", required=True, metavar="NAME=FILE", help="a model, by the name to serve it")
    parser.add_argument("--backend", action="append", metavar="ID", help="in order of preference; default the CPU backends")
    parser.add_argument("--threads", type=int, default=1, help="that one run uses; several requests run at once anyway")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; default this machine alone")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--largest-body", type=int, default=16 << 20, metavar="BYTES", help="of a request; default 16 MiB")
    parser.add_argument("--most-waiting", type=int, default=256, metavar="N", help="requests at once; others get 503")
    parser.add_argument("--seconds", type=float, default=10.0, help="that a run may take")
    parser.add_argument("--body-seconds", type=float, default=30.0, help="that a body may take to come; then it gets 408")
    given = parser.parse_args()
    files: dict[str, str] = {}
    for text in given.model:
        name, equals, path = text.partition("=")
        if not equals or not name.replace("-", "").replace("_", "").isalnum() or name in files:
            parser.error(f"--model {text!r}: expected NAME=FILE, each name once, of letters, digits, - and _")
        files[name] = path
    load = partial(dovetail.load, backends=given.backend, threads=given.threads)
    settings = Settings(given.largest_body, given.most_waiting, given.seconds, given.body_seconds)
    # Without WebSockets, which nothing here answers and which take memory.
    uvicorn.run(create_app(files, load, settings), host=given.host, port=given.port, access_log=False, ws="none")


if __name__ == "__main__":
    main()
