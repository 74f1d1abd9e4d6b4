"""What a backend implements and is given; vendors import from here and from `dovetail` itself."""
