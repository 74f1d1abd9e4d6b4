"""Tests of vendors' builds with `dovetail_build`: what is made, that it runs, what is refused."""
