"""What goes wrong while backends are found and loaded: fake distributions, libraries that fail, the contract they share."""
