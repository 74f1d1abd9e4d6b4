"""Start the command line."""

import os
import sys

# Before NumPy is imported: a process that is forked must not have threads, and the arithmetic is to
# be that of one thread.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

from .command import main  # noqa: E402  # see above

sys.exit(main())
