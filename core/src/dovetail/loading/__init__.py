"""From a model file to a network that is ready to run: the top floor, which may use all others."""
