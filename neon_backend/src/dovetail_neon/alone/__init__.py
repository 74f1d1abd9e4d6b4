"""Layers that run outside any part that was rewritten."""
