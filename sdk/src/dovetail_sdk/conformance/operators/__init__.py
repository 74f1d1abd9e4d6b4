"""How each kind is judged, one module per kind; `all_operators` finds them by itself."""
