"""Declarations of the kernels for Cython, a file for each header of csrc/interface; nothing here runs."""
