"""Measure whole models on dovetail and its peers; see README.md."""

import sys

if __name__ == "__main__":
    if sys.platform == "win32":
        sys.exit("models.py measures on POSIX systems only: it stops and continues processes")
    from versus.command import command

    command(prog_name="dev.py bench models")
