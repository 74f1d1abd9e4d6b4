"""Definitions in NumPy and Python of what the operators compute; none of our own code."""
