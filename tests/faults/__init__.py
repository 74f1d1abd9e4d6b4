"""Test failures while backends are found and loaded.

The tests share fake distributions, libraries that fail, and the contract.
"""
