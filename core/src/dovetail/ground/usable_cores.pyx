"""How many cores this process may use, as the scheduler sees it."""

import os


cdef extern from "usable_cores.h":
    int dvt_usable_cores()
    void dvt_forget_usable_cores()


def _forget():
    dvt_forget_usable_cores()


os.register_at_fork(after_in_child=_forget)


def usable_cores():
    """Return the cores of the affinity mask, or of the CPU quota if fewer; at least 1."""
    return dvt_usable_cores()
