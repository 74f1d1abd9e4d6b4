"""Backends in processes of their own: a driver that aborts, hangs or leaks leaves the host alive.

What the host does lies here; what the processes do, which run networks, in `loading.isolated_*`.
"""
