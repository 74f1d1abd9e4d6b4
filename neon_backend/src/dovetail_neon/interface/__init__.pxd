"""What the headers of csrc/interface declare, a file for each."""
