"""How images lie in memory, and windows over them."""
