"""What is fused across families."""
