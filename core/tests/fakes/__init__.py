"""What tests of the core share: backends, distributions and evaluators that stand for real ones."""
