"""The subcommands of `dovetail`: a module each, named like its command, which holds `command`.

A module here imports only click at its top: everything else waits until the command runs, so that
`dovetail --help` is quick.
"""
