"""The checks, a module per topic, each found by itself; `checks.py` says what a check is."""
