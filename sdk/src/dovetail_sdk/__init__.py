"""Tools on top of dovetail: the `dovetail` command."""
