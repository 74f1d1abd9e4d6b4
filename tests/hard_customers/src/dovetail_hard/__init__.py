"""Backends that are hard to please, for the tests of the runtime."""
