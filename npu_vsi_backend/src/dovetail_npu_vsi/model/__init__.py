"""The NPU in software: compiles programs to commands for a chip, and carries them out.

Results have the bits of the vendor's simulator, as far as README.md says so; times are estimates.
"""

from .driver import ModelDriver

__all__ = ["ModelDriver"]
