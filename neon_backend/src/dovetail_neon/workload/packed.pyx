"""Weights in the form that kernels read, shared by all workloads of a network that read the same.

A network has a plan for each set of sizes, and each plan workloads of its own; what they pack is
mostly the same. All is held weakly: a packed constant lives as long as a workload that reads it.
"""

from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

import weakref

import numpy as np

from dovetail.ground.limits import budget

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <sys/mman.h>

    /* Weights of some megabytes in large pages, where they are to be had: a fault each for 4 KiB
     * takes longer than packing them. */
    static void acc_large_pages(void *block, size_t nbytes) {
    #ifdef MADV_HUGEPAGE
        const uintptr_t page = 4096, begin = ((uintptr_t)block + page - 1) / page * page;
        if (nbytes >= (size_t)4 << 20) (void)madvise((void *)begin, ((uintptr_t)block + nbytes - begin) / page * page, MADV_HUGEPAGE);
    #else
        (void)block, (void)nbytes;
    #endif
    }
    """
    void large_pages "acc_large_pages"(void *block, size_t nbytes) nogil

cdef enum:
    LINE = 64       # bytes
    COMPARED = 1 << 24  # bytes between two looks at the time
    MAX_FORMS = 8   # of the weights of a layer that are compared; further ones are not shared unless they come from the same array


cdef class Block:
    """A packed constant."""

    def __dealloc__(self):
        free(self.memory)


cdef Block new_block(size_t nbytes):
    """Return zeroed memory."""
    cdef Block block = Block.__new__(Block)
    # Pages fresh from the system are zero: calloc does not write to them, so that packing is the
    # first to touch them.
    block.memory = calloc(nbytes + LINE, 1)
    if block.memory == NULL:
        raise MemoryError(f"no {nbytes} bytes for constants of a layer")
    large_pages(block.memory, nbytes + LINE)
    block.data = <void *>((<size_t>block.memory + LINE - 1) // LINE * LINE)
    block.nbytes = nbytes
    return block


cdef int is_over(acc_packing *packing) noexcept with gil:
    """Look at the time of the load, and let handlers of signals run."""
    try:
        budget().check_time()
    except BaseException as error:
        (<Packing>(<asked *>packing).owner).error = error
        return True
    return False


cdef class Packing:
    """Packs without Python, and asks now and then whether the load should end.

        packing = Packing()
        with nogil:
            table.pack(..., packing.start())
        packing.finish()    # raises what ended it
    """

    cdef acc_packing *start(self) except NULL:
        self.c.packing.is_over, self.c.packing.work, self.c.packing.over, self.c.owner = is_over, 0, False, <void *>self
        return &self.c.packing

    cdef int finish(self) except -1:
        if self.error is not None:
            raise self.error
        return 0


cdef bint same_bytes(Block a, Block b) except -1:
    cdef size_t done = 0, count
    while done < a.nbytes:
        count = min(a.nbytes - done, <size_t>COMPARED)
        if memcmp(<char *>a.data + done, <char *>b.data + done, count) != 0:
            return False
        done += count
        budget().check_time()
    return True


cdef class PackedConstants:
    """The packed constants of one network.

    Constants of a network are the same arrays in all its plans. What was packed before from the
    same memory, in the same form, is found without packing. Weights that were worked out anew (less
    their zero points, with padding) are packed and then compared with what the same layer had.
    """

    def __init__(self):
        self.by_source = weakref.WeakValueDictionary()
        self.by_layer = weakref.WeakValueDictionary()

    def __len__(self):
        return len({id(block) for table in (self.by_source, self.by_layer) for block in table.values()})

    @property
    def nbytes(self):
        """Bytes of all that is held by some workload."""
        blocks = {id(block): block for table in (self.by_source, self.by_layer) for block in table.values()}
        return sum((<Block>block).nbytes for block in blocks.values())

    cdef Block find(self, object source, tuple form):
        """Return what was packed from an array in this form; None if nothing was, or it is gone.

        `form`: all that packing depends on besides the array.
        """
        cdef Block block = self.by_source.get(_key(source, form))
        return block if block is not None and block.owner() is _owner(source) else None

    cdef Block add(self, Block block, object source, tuple form, object layer):
        """Take what was packed for a layer, or return the same that the layer had before."""
        cdef Block other
        cdef int number
        for number in range(MAX_FORMS):
            key = layer, block.nbytes, number
            other = self.by_layer.get(key)
            if other is None:
                self.by_layer[key] = block
                break
            if same_bytes(other, block):
                block = other
                break
        block.owner = weakref.ref(_owner(source))
        self.by_source[_key(source, form)] = block
        return block


def _owner(array):
    """Return the array that holds a view's memory.

    As long as it lives, there is nothing else at these addresses.
    """
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _key(array, tuple form):
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str, form
