"""`python -m dovetail`: the command `dovetail`, which another package brings."""

import sys
from importlib.metadata import entry_points


def main() -> int:
    """Run the command; 2 if it is not installed."""
    commands = entry_points(group="console_scripts", name="dovetail")
    if not commands:
        print("the command `dovetail` is not installed in this environment: pip install dovetail-sdk", file=sys.stderr)
        return 2
    return int(next(iter(commands)).load()() or 0)


if __name__ == "__main__":
    sys.exit(main())
