"""What a backend implements and what it is given. Vendors import from here, and from `dovetail` itself."""
