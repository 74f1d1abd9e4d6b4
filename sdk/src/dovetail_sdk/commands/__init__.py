"""The subcommands of `dovetail`: one module each, whose name is the command's and which holds `command`.

A module here imports only click at its top: everything else waits until the command runs, so that
`dovetail --help` is quick.
"""
