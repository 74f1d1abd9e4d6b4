"""The kernels in csrc, compiled once per instruction set and linked into this module alone."""


cdef class Kernels:
    """The kernels of one instruction set.

    Args:
        name: One of `instruction_sets()` that this machine has.

    Raises:
        ValueError: This build does not have it, or this machine.
    """

    def __cinit__(self, str name):
        self.table = neon_kernels_of(name.encode())
        if self.table == NULL:
            known = ", ".join(f"{n} ({'here' if here else 'not on this machine'})" for n, here in instruction_sets().items())
            raise ValueError(f"instruction set {name!r} cannot be used; this build has {known}")

    @property
    def name(self):
        """Name of the instruction set."""
        return self.table.name.decode()

    @property
    def lanes(self):
        """Elements of float32 in a vector, and channels in a block."""
        return self.table.lanes

    @property
    def vectors(self):
        """Vectors of filters that a tile of a convolution computes at once, at most."""
        return self.table.convolution.vectors


def instruction_sets():
    """Instruction sets of this build, best first, and whether this machine has them."""
    cdef int here = 0
    cdef const char *name
    found = {}
    while (name := neon_instruction_set(len(found), &here)) != NULL:
        found[name.decode()] = bool(here)
    return found
