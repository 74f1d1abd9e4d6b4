"""The checks, one module per topic; `checks.py` says what a check is. Every module here is found by itself."""
