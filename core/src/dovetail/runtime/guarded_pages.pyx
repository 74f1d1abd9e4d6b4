"""Memory between inaccessible pages, and a sentence about the layer that touched one.

The handler says what was touched, puts back the handler that was there before and returns: the
access happens again, and the process ends as it would have, with the stack that `faulthandler`
writes where that is enabled.
"""

from libc.signal cimport SIG_DFL, SIGBUS, SIGSEGV
from libc.stdint cimport uintptr_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memset, strncpy
from posix.mman cimport MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, PROT_NONE, PROT_READ, PROT_WRITE, mmap, mprotect, munmap
from posix.signal cimport sigaction, sigaction_t, sigemptyset, siginfo_t
from posix.unistd cimport _SC_PAGESIZE, sysconf, write

cdef extern from "signal.h" nogil:
    int SA_SIGINFO

# An access this far beside a tensor is still recognised: a row or a plane too far, not only an
# element.
cdef size_t BESIDE = 256 << 10

cdef struct Region:
    char *mapping
    size_t mapped
    char *data
    size_t nbytes
    char label[200]
    const char *step        # what runs just now on what the region belongs to
    Region *following

cdef Region *regions = NULL
cdef sigaction_t earlier_segv, earlier_bus, usual
cdef bint has_told = False


cdef void on_fault(int number, siginfo_t *info, void *context) noexcept nogil:
    cdef char text[1024]
    cdef char place[128]
    cdef char *at = <char *>info.si_addr
    cdef Region *region = regions
    cdef int length
    global has_told
    if has_told:        # a handler that came after ours put ours back: let the process end
        sigaction(number, &usual, NULL)
        return
    has_told = True
    while region != NULL and not region.mapping <= at < region.mapping + region.mapped:
        region = region.following
    if region != NULL:
        if at < region.data:
            snprintf(place, sizeof(place), "touched memory %llu bytes before the start of", <unsigned long long>(region.data - at))
        elif at >= region.data + region.nbytes:
            snprintf(
                place, sizeof(place), "touched memory at byte %llu behind the end of",
                <unsigned long long>(at - region.data - region.nbytes))
        else:
            snprintf(place, sizeof(place), "wrote at byte %llu of, which it may only read,", <unsigned long long>(at - region.data))
        length = snprintf(
            text, sizeof(text), "dovetail guard: %s %s %s (%llu bytes)\n", region.step, place, region.label,
            <unsigned long long>region.nbytes)
        write(2, text, <size_t>min(length, <int>sizeof(text) - 1))
    sigaction(SIGSEGV, &earlier_segv, NULL)
    sigaction(SIGBUS, &earlier_bus, NULL)


cdef int handle_faults() except -1:
    """Put the handler, unless present, in front of what is there now, such as `faulthandler`."""
    cdef sigaction_t ours, now
    sigaction(SIGSEGV, NULL, &now)
    if <void *>now.sa_handler == <void *>on_fault:
        return 0
    memset(&ours, 0, sizeof(ours))
    memset(&usual, 0, sizeof(usual))
    usual.sa_handler = SIG_DFL
    ours.sa_handler = <void (*)(int) noexcept nogil>on_fault
    ours.sa_flags = SA_SIGINFO
    sigemptyset(&ours.sa_mask)
    sigaction(SIGSEGV, &ours, &earlier_segv)
    sigaction(SIGBUS, &ours, &earlier_bus)
    return 0


cdef class Running:
    """Says of a group of blocks which step runs on them, for the sentence about a fault."""

    cdef char text[400]

    def say(self, str text):
        """Note what runs from now on."""
        cdef bytes encoded = text.encode("utf-8", "replace")
        strncpy(self.text, encoded, sizeof(self.text) - 1)


cdef class Block:
    """Bytes that touch an inaccessible page.

    Args:
        nbytes: Size.
        alignment: Of the address, a power of two: so many bytes but one may lie between the end and
            the page.
        at_end: Let the last byte touch the page; else the first one.
        label: What lies there.
        running: Who knows which step runs on it.
    """

    cdef Region *region
    cdef char *begin        # of the accessible pages
    cdef size_t accessible
    cdef Running running
    cdef readonly size_t nbytes

    def __init__(self, size_t nbytes, size_t alignment, bint at_end, str label, Running running):
        cdef size_t page = <size_t>sysconf(_SC_PAGESIZE)
        cdef size_t shift
        cdef Region *region = <Region *>calloc(1, sizeof(Region))
        cdef char *mapping
        cdef bytes encoded = label.encode("utf-8", "replace")
        if region == NULL:
            raise MemoryError()
        if nbytes > (<size_t>1 << 46):
            free(region)
            raise MemoryError(f"{nbytes} bytes cannot be mapped")
        self.accessible = max((nbytes + page - 1) // page * page, page)
        mapping = <char *>mmap(
            NULL, self.accessible + 2 * BESIDE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
        if <void *>mapping == MAP_FAILED:
            free(region)
            raise MemoryError(f"{nbytes} bytes between inaccessible pages cannot be mapped")
        self.begin = mapping + BESIDE
        if mprotect(self.begin, self.accessible, PROT_READ | PROT_WRITE) != 0:
            munmap(mapping, self.accessible + 2 * BESIDE)
            free(region)
            raise MemoryError("the process has as many mappings as it may (Linux: vm.max_map_count)")
        shift = self.accessible - nbytes if at_end else 0
        region.data = self.begin + (shift & ~(alignment - 1))
        region.mapping, region.mapped, region.nbytes = mapping, self.accessible + 2 * BESIDE, nbytes
        strncpy(region.label, encoded, sizeof(region.label) - 1)
        self.running, self.nbytes, self.region = running, nbytes, region
        region.step = running.text
        region.following = regions
        globals_take(region)
        handle_faults()

    @property
    def address(self):
        """Where the bytes begin; 0 once it was released."""
        return <uintptr_t>self.region.data if self.region != NULL else 0

    def fill(self, unsigned char value):
        """Make the pages writeable and fill them, what lies beside the bytes included."""
        self.protect(True)
        memset(self.begin, value, self.accessible)

    def protect(self, bint writeable):
        """Let kernels write here, or let them only read."""
        if self.region != NULL:
            mprotect(self.begin, self.accessible, PROT_READ | PROT_WRITE if writeable else PROT_READ)

    def written_beside(self, unsigned char value):
        """Return how far from the bytes something else than the fill stands.

        Below 0 is before the start, 0 and more behind the end. None if nothing does. What lies on
        the inaccessible pages needs no look.
        """
        cdef char *at = self.region.data - 1
        cdef char *end = self.region.data + self.nbytes
        while at >= self.begin:
            if <unsigned char>at[0] != value:
                return at - self.region.data
            at -= 1
        at = end
        while at < self.begin + self.accessible:
            if <unsigned char>at[0] != value:
                return at - end
            at += 1
        return None

    def release(self):
        """Unmap; harmless the second time."""
        cdef Region **link = &regions
        if self.region == NULL:
            return
        while link[0] != NULL and link[0] != self.region:
            link = &link[0].following
        if link[0] != NULL:
            link[0] = self.region.following
        munmap(self.region.mapping, self.region.mapped)
        free(self.region)
        self.region = NULL

    def __dealloc__(self):
        Block.release(self)


cdef void globals_take(Region *region) noexcept:
    global regions
    regions = region
