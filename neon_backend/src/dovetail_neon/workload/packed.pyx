"""Weights in the form that kernels read, shared by all workloads of a network that read the same.

A network has a plan for each set of sizes, and each plan workloads of its own; what they pack is
mostly the same. All is held weakly: a packed constant lives as long as a workload that reads it.
"""

from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

import threading
import weakref

import numpy as np

from dovetail.ground.limits import budget, under_way

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <sys/mman.h>

    #define ACC_LARGE_PAGE ((size_t)2 << 20)

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

    /* Zeroed memory of whole large pages; NULL if there is none. */
    static void *acc_map(size_t nbytes) {
        char *begin = (char *)mmap(NULL, nbytes + ACC_LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (begin == (char *)MAP_FAILED) return NULL;
        char *first = (char *)(((uintptr_t)begin + ACC_LARGE_PAGE - 1) / ACC_LARGE_PAGE * ACC_LARGE_PAGE);
        if (first > begin) (void)munmap(begin, (size_t)(first - begin));
        (void)munmap(first + nbytes, (size_t)(begin + ACC_LARGE_PAGE - first));
        acc_large_pages(first, nbytes);
        return first;
    }
    static void acc_unmap(void *memory, size_t nbytes) { (void)munmap(memory, nbytes); }
    """
    void large_pages "acc_large_pages"(void *block, size_t nbytes) nogil
    void *map_pages "acc_map"(size_t nbytes) nogil
    void unmap_pages "acc_unmap"(void *memory, size_t nbytes) nogil

cdef enum:
    LINE = 64       # bytes
    COMPARED = 1 << 24  # bytes between two looks at the time
    SEVERAL = 1 << 22   # bytes of a load from which on blocks share large pages
    SMALL = 1 << 14     # bytes of a block that never does
    LARGE = 1 << 22     # bytes of one that has large pages of its own
    MIN_CHUNK_BYTES = 1 << 23
    MAX_CHUNK_BYTES = 1 << 24
    MAX_FORMS = 8   # of the weights of a layer that are compared; further ones are not shared unless they come from the same array


cdef class Block:
    """A packed constant."""

    def __dealloc__(self):
        free(self.memory)


cdef class Chunk:
    """Large pages that blocks of one load share; it lives as long as one of them."""

    cdef void *memory
    cdef size_t nbytes, used
    cdef object __weakref__

    def __dealloc__(self):
        if self.memory != NULL:
            unmap_pages(self.memory, self.nbytes)


cdef class PartOfChunk(Block):
    cdef Chunk chunk


class Loading(threading.local):
    """What a thread has packed in the load under way.

    Attributes:
        token: Of the load.
        taken: Bytes of its blocks.
        chunk: Returns the chunk that they share, if it is still there.
    """

    token = None
    taken = 0
    chunk = staticmethod(lambda: None)


loading = Loading()


cdef Block part_of_chunk(size_t nbytes):
    """Return memory in the large pages of the load under way; None where it had better lie alone.

    A fault for each page of 4 KiB takes about as long as to pack into it. Small networks do without
    large pages, and so do the first blocks of others.
    """
    load = under_way()
    if load is None:
        return None
    if loading.token is not load.token:
        loading.token, loading.taken, loading.chunk = load.token, 0, Loading.chunk
    loading.taken += nbytes
    if nbytes < SMALL or nbytes >= LARGE or loading.taken < SEVERAL:
        return None
    cdef Chunk chunk = loading.chunk()
    cdef size_t size, room = (nbytes + LINE - 1) // LINE * LINE + LINE    # some kernels read a line further
    if chunk is None or chunk.nbytes - chunk.used < room:
        size = <size_t>MIN_CHUNK_BYTES if chunk is None else min(2 * chunk.nbytes, <size_t>MAX_CHUNK_BYTES)
        chunk = Chunk.__new__(Chunk)
        chunk.memory = map_pages(size)
        if chunk.memory == NULL:
            return None
        chunk.nbytes = size
        loading.chunk = weakref.ref(chunk)
    cdef PartOfChunk block = PartOfChunk.__new__(PartOfChunk)
    block.chunk, block.nbytes = chunk, nbytes
    block.data = <char *>chunk.memory + chunk.used
    chunk.used += room
    return block


cdef Block new_block(size_t nbytes):
    """Return zeroed memory."""
    cdef Block block = part_of_chunk(nbytes)
    if block is not None:
        return block
    block = Block.__new__(Block)
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
