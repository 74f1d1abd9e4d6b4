"""The kernels in csrc, compiled once per instruction set and linked into this module alone."""

from dovetail_neon.interface.bfloat16 cimport neon_bfloat16_kernels_of
from dovetail_neon.interface.float16 cimport neon_float16_kernels_of
from dovetail_neon.interface.kernels cimport neon_instruction_set, neon_kernels_of
from dovetail_neon.interface.quantized cimport neon_quantized_kernels_of, neon_quantized_matrix_of
from dovetail_neon.workloads.packed cimport PackedConstants


cdef class Kernels:
    """The kernels of one instruction set.

    Args:
        name: One of `instruction_sets()` that this machine has.
        precision: One of `precisions(name)`: to what the factors of convolutions and of products with constant matrices are rounded.
        unit: What multiplies reduced factors, "amx", "avx512_bf16" or "neon_fp16"; empty for the best that the machine has.
        dot_products: Whether quantized tensors are multiplied by dot products of bytes (VNNI, SDOT) where the machine has them.
        matrix_unit: Whether they are by a matrix unit (AMX), where the machine has it and dot products are wanted.

    Raises:
        ValueError: This build does not have it, or this machine.
    """

    def __cinit__(self, str name, str precision="float32", str unit="", bint dot_products=True, bint matrix_unit=True):
        self.table = neon_kernels_of(name.encode())
        if self.table == NULL:
            known = ", ".join(f"{n} ({'here' if here else 'not on this machine'})" for n, here in instruction_sets().items())
            raise ValueError(f"instruction set {name!r} cannot be used; this build has {known}")
        self.constants = PackedConstants()
        self.arguments = name, precision, unit, dot_products, matrix_unit
        self.bfloat16, self.float16 = NULL, NULL
        self.quantized = neon_quantized_kernels_of(self.table.name, dot_products)
        self.matrix = neon_quantized_matrix_of(self.quantized) if matrix_unit else NULL
        self.convolution, self.strips = self.table.convolution, self.table.strips
        encoded = unit.encode()
        cdef const char *wanted = <const char *>encoded if unit else NULL
        if precision == "bfloat16":
            self.bfloat16 = neon_bfloat16_kernels_of(self.table.name, wanted)
        elif precision == "float16":
            self.float16 = neon_float16_kernels_of(self.table.name, wanted)
        if self.float16 != NULL:
            self.convolution, self.strips = self.float16.convolution, self.float16.strips
        elif precision != "float32" and self.bfloat16 == NULL:
            raise ValueError(
                f"precision {precision!r}{' of unit ' + repr(unit) if unit else ''} cannot be used with instruction set {name!r} "
                f"on this machine, which has {', '.join(precisions(name))}")

    def for_network(self):
        """Return the same kernels, for the workloads of one network: these share what they pack."""
        return Kernels(*self.arguments)

    @property
    def name(self):
        """Name of the instruction set."""
        return self.table.name.decode()

    @property
    def precision(self):
        """To what the factors of products are rounded."""
        return "bfloat16" if self.bfloat16 != NULL else "float16" if self.float16 != NULL else "float32"

    @property
    def unit(self):
        """What multiplies factors of reduced precision; empty where none are."""
        if self.float16 != NULL:
            return self.float16.name.decode()
        return "" if self.bfloat16 == NULL else self.bfloat16.name.decode()

    @property
    def dot_products(self):
        """What multiplies bytes four at a time; empty where they are widened to 16 bits and multiplied in pairs."""
        return self.quantized.name.decode() if self.quantized.has_quads else ""

    @property
    def matrix_unit(self):
        """What multiplies bytes in tiles; empty where nothing does."""
        return "" if self.matrix == NULL else self.matrix.name.decode()

    @property
    def lanes(self):
        """Elements of float32 in a vector, and channels in a block."""
        return self.table.lanes

    @property
    def vectors(self):
        """Vectors of filters that a tile of a convolution computes at once, at most; those of float16 hold twice as many."""
        return self.convolution.vectors // self.convolution.together


def instruction_sets():
    """Instruction sets of this build, best first, and whether this machine has them."""
    cdef int here = 0
    cdef const char *name
    found = {}
    while (name := neon_instruction_set(len(found), &here)) != NULL:
        found[name.decode()] = bool(here)
    return found


def precisions(str name):
    """Precisions that products may have with an instruction set on this machine."""
    encoded = name.encode()
    found = ["float32"]
    if neon_bfloat16_kernels_of(encoded, NULL) != NULL:
        found.append("bfloat16")
    if neon_float16_kernels_of(encoded, NULL) != NULL:
        found.append("float16")
    return found
