"""Tests of plans that are kept of model files: loading them again, and what voids them."""
