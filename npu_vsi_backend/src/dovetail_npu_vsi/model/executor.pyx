"""Carry out the commands of a compiled program."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free

cdef extern from "commands.h":
    struct vsi_command:
        pass
    struct vsi_filter:
        pass
    struct vsi_memories:
        uint8_t *ddr
        uint8_t *sram
        const uint8_t *constants
        uint8_t **inputs
        uint8_t **outputs
    int64_t vsi_execute(const vsi_command *commands, int64_t count, const vsi_memories *memories,
                        int32_t *scratch) noexcept nogil
    int64_t vsi_scratch_bytes(const vsi_command *commands, int64_t count) noexcept nogil


def record_sizes():
    """Return the bytes of a command and of a filter, as they were compiled."""
    return sizeof(vsi_command), sizeof(vsi_filter)


cdef class Executor:
    """The memories of a program, and its commands.

    Args:
        commands: Records of struct vsi_command, checked: no block leaves its memory.
        constants: Bytes.
        ddr_bytes, sram_bytes: Sizes of the memories.
        inputs, outputs: How many operands there are.

    Raises:
        MemoryError: There is not that much.
    """

    cdef const uint8_t[::1] _commands
    cdef const uint8_t[::1] _constants
    cdef int64_t _count
    cdef vsi_memories _memories
    cdef uint8_t **_addresses
    cdef int32_t *_scratch
    cdef int64_t _next
    cdef readonly int64_t nbytes
    """Bytes that it holds of its own."""

    def __cinit__(self, const uint8_t[::1] commands, const uint8_t[::1] constants, int64_t ddr_bytes, int64_t sram_bytes,
                  int64_t inputs, int64_t outputs):
        self._commands = commands
        self._constants = constants
        self._count = commands.shape[0] // <int64_t>sizeof(vsi_command)
        cdef const vsi_command *first = <const vsi_command *>&commands[0] if self._count else NULL
        cdef int64_t scratch = vsi_scratch_bytes(first, self._count)
        self._addresses = <uint8_t **>calloc(inputs + outputs + 1, sizeof(uint8_t *))
        self._memories.ddr = <uint8_t *>calloc(ddr_bytes + 1, 1)
        self._memories.sram = <uint8_t *>calloc(sram_bytes + 1, 1)
        self._scratch = <int32_t *>calloc(scratch + 64, 1)
        if not self._addresses or not self._memories.ddr or not self._memories.sram or not self._scratch:
            raise MemoryError(f"the program needs {ddr_bytes + sram_bytes + scratch} bytes")
        self._memories.constants = &constants[0] if constants.shape[0] else NULL
        self._memories.inputs = self._addresses
        self._memories.outputs = self._addresses + inputs
        self.nbytes = ddr_bytes + sram_bytes + scratch

    def __dealloc__(self):
        free(self._addresses)
        free(self._memories.ddr)
        free(self._memories.sram)
        free(self._scratch)

    def bind(self, addresses):
        """Set the addresses of all inputs, then of all outputs."""
        cdef int64_t i
        for i, address in enumerate(addresses):
            self._addresses[i] = <uint8_t *><uintptr_t>address

    def begin(self):
        """Begin a run on what is bound."""
        self._next = 0

    def advance(self):
        """Carry out commands for some milliseconds; return whether all are done."""
        cdef const vsi_command *first = <const vsi_command *>&self._commands[0] if self._count else NULL
        with nogil:
            self._next += vsi_execute(first + self._next, self._count - self._next, &self._memories, self._scratch)
        return self._next == self._count
