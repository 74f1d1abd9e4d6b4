"""The kernels, compiled once per instruction set and linked into this module alone."""

from dovetail_neon.convolution.parameters cimport acc_convolution_kernels
from dovetail_neon.instruction_sets.precisions cimport acc_precision_of
from dovetail_neon.instruction_sets.table cimport acc_instruction_set, acc_kernels_of
from dovetail_neon.quantized.parameters cimport acc_quantized_kernels_of, acc_quantized_matrix_of
from dovetail_neon.strips.parameters cimport acc_strips_kernels
from dovetail_neon.workload.packed cimport PackedConstants


cdef class Kernels:
    """The kernels of one instruction set.

    Args:
        name: One of `instruction_sets()` that this machine has.
        precision: One of `precisions(name)`: to what the factors of convolutions and of products
            with constant matrices are rounded.
        unit: What multiplies reduced factors, "amx", "avx512_bf16" or "neon_fp16"; empty for the
            best that the machine has.
        dot_products: Whether quantized tensors are multiplied by dot products of bytes (VNNI, SDOT)
            where the machine has them.
        matrix_unit: Whether they are by a matrix unit (AMX), where the machine has it and dot
            products are wanted.

    Raises:
        ValueError: This build does not have it, or this machine.
    """

    def __cinit__(self, str name, str precision="float32", str unit="", bint dot_products=True, bint matrix_unit=True):
        self.table = acc_kernels_of(name.encode())
        if self.table == NULL:
            known = ", ".join(f"{n} ({'here' if here else 'not on this machine'})" for n, here in instruction_sets().items())
            raise ValueError(f"instruction set {name!r} cannot be used; this build has {known}")
        self.constants = PackedConstants()
        self.arguments = name, precision, unit, dot_products, matrix_unit
        self.quantized = acc_quantized_kernels_of(self.table.name, dot_products)
        self.matrix = acc_quantized_matrix_of(self.quantized) if matrix_unit else NULL
        encoded_precision, encoded_unit = precision.encode(), unit.encode()
        cdef const char *wanted = <const char *>encoded_unit if unit else NULL
        self.reduced = NULL
        if precision != "float32":
            self.reduced = acc_precision_of(self.table.name, encoded_precision, wanted)
        if precision != "float32" and self.reduced == NULL:
            raise ValueError(
                f"precision {precision!r}{' of unit ' + repr(unit) if unit else ''} cannot be used with instruction set {name!r} "
                f"on this machine, which has {', '.join(precisions(name))}")

    cdef const acc_convolution_kernels *convolution_of(self, str precision) except NULL:
        """Return what convolves images of float32 with factors of a precision."""
        if precision == "float32":
            return self.table.convolution
        if self.reduced == NULL or self.reduced.convolution == NULL or self.precision != precision:
            raise ValueError(f"these kernels, of precision {self.precision}, do not convolve with factors of {precision}")
        return self.reduced.convolution

    cdef const acc_strips_kernels *strips_of(self, tuple stages) except NULL:
        """Return what runs a chain of layers of images of float32."""
        if all(stage.precision == "float32" for stage in stages):
            return self.table.strips
        if self.reduced == NULL or self.reduced.strips == NULL:
            raise ValueError(f"these kernels, of precision {self.precision}, do not run chains of others")
        return self.reduced.strips

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
        return "float32" if self.reduced == NULL else self.reduced.precision.decode()

    @property
    def unit(self):
        """What multiplies factors of reduced precision; empty where none are."""
        return "" if self.reduced == NULL else self.reduced.unit.decode()

    @property
    def dot_products(self):
        """Return what multiplies bytes four at a time; empty if they are multiplied in pairs.

        Pairs are of bytes widened to 16 bits.
        """
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
        """Return the most vectors of filters that a convolution tile computes at once.

        Vectors of float16 hold twice as many filters.
        """
        cdef const acc_convolution_kernels *table = self.table.convolution
        if self.reduced != NULL and self.reduced.convolution != NULL:
            table = self.reduced.convolution
        return table.vectors // table.together


def instruction_sets():
    """Instruction sets of this build, best first, and whether this machine has them."""
    cdef int here = 0
    cdef const char *name
    found = {}
    while (name := acc_instruction_set(len(found), &here)) != NULL:
        found[name.decode()] = bool(here)
    return found


def precisions(str name):
    """Precisions that products may have with an instruction set on this machine."""
    encoded = name.encode()
    return ["float32", *(each for each in ("bfloat16", "float16") if has_precision(encoded, each.encode()))]


cdef bint has_precision(bytes name, bytes precision):
    return acc_precision_of(name, precision, NULL) != NULL
