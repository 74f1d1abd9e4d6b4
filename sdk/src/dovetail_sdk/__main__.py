"""Run as ``python -m dovetail_sdk``."""

from .cli import main

main(prog_name="dovetail")
