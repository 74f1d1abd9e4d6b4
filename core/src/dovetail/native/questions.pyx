"""Ask a table of C functions what needs no device: what it states, supports, compiles."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t
from libc.string cimport memset

from dovetail.abi cimport (
    DOVETAIL_FAILED,
    DOVETAIL_OK,
    dovetail_attribute,
    dovetail_device_info,
    dovetail_progress,
)
from dovetail.native.layer_view cimport View
from dovetail.native.table cimport MAX_ENTRIES, Call, Table, decoded

from ..contract.interfaces import Device
from ..ground import progress
from ..ground.foreign_text import one_line
from ..ground.limits import under_way
from .attribute_types import AttributeType

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef extern from "taken_sizes.h":
    const size_t DVT_MIN_DEVICE
    const size_t DVT_MIN_OPTION
    const size_t DVT_MIN_ATTRIBUTE
    const size_t DVT_MIN_KIND_VERSION


# -- what it states --------------------------------------------------------------------------------


def kind_versions(Table table):
    """Newest version known by kind."""
    cdef int i
    result = {}
    for i in range(table.c.n_kind_versions):
        one = table.c.kind_versions[i]
        if one == NULL or one.size < DVT_MIN_KIND_VERSION or one.kind == NULL:
            raise table.broken(f"entry {i} of kind_versions is empty or too small")
        result[decoded(one.kind)] = one.version
    return result


def options(Table table):
    """List (name, AttributeType, default values, description) of each option."""
    cdef int i
    cdef const dovetail_attribute *value
    result = []
    for i in range(table.c.n_options):
        one = table.c.options[i]
        if one == NULL or one.size < DVT_MIN_OPTION or one.value == NULL or one.value.size < DVT_MIN_ATTRIBUTE \
                or one.value.name == NULL:
            raise table.broken(f"entry {i} of its options is empty, has no name or is too small")
        value = one.value
        text = decoded(one.description) if one.size >= sizeof(one[0]) else ""
        values = _values(table, value)  # which looks at the type
        result.append((decoded(value.name), AttributeType(value.type), values, text))
    return result


cdef list _values(Table table, const dovetail_attribute *value):
    cdef int i
    kind, name = value.type, decoded(value.name)
    listed = kind >= AttributeType.INTS
    pointers = {1: <size_t>value.integers, 2: <size_t>value.integers, 5: <size_t>value.integers, 3: <size_t>value.reals,
                6: <size_t>value.reals, 4: <size_t>value.strings, 7: <size_t>value.strings}
    if kind not in pointers:
        raise table.broken(f"{name!r} has type {kind}, which no option or fact can have")
    if not (0 <= value.count <= MAX_ENTRIES) or (value.count and not pointers[kind]) or (not listed and value.count != 1):
        raise table.broken(f"the value of {name!r} has {value.count} elements, or no pointer to them")
    if kind == AttributeType.BOOL and value.integers[0] not in (0, 1):
        raise table.broken(f"the value of {name!r} is {value.integers[0]}, which is neither 0 nor 1")
    if kind in (1, 2, 5):
        return [bool(value.integers[i]) if kind == 1 else value.integers[i] for i in range(value.count)]
    if kind in (3, 6):
        return [value.reals[i] for i in range(value.count)]
    return [decoded(value.strings[i]) for i in range(value.count)]


def devices(Table table):
    """List the devices, as the table states them."""
    return tuple([_device(table, index) for index in range(table.c.n_devices)])


cdef object _device(Table table, int index):
    cdef dovetail_device_info info
    cdef Call call = Call(table)
    memset(&info, 0, sizeof(info))
    info.size = sizeof(info)
    if table.c.device_info != NULL:
        with call, nogil:
            call.status = table.c.device_info(table.c.state, index, &info, &call.answer)
        if call.status != DOVETAIL_OK:
            why = call.why()
            raise table.broken(f"tells nothing of its device {index}: {why.text or f'code {call.status}, no reason given'}")
        table.accept(&info, DVT_MIN_DEVICE, sizeof(info), "device_info", "dovetail_device_info")
        if info.half_precision not in (-1, 0, 1):
            raise table.broken(f"says that half_precision of device {index} is {info.half_precision}, not 1, -1 or 0")
    return Device(
        index,
        one_line(decoded(info.name)) if info.name != NULL else f"device {index}",
        info.memory_bytes or None,
        None if info.half_precision == 0 else info.half_precision > 0,
        one_line(decoded(info.revision)),
        _facts(table, index, &info),
    )


cdef dict _facts(Table table, int index, dovetail_device_info *info):
    cdef int32_t i
    if not (0 <= info.facts.count <= MAX_ENTRIES) or (info.facts.count and info.facts.items == NULL):
        raise table.broken(f"says that device {index} has {info.facts.count} facts, or lists none")
    facts = {}
    for i in range(info.facts.count):
        fact = info.facts.items[i]
        if fact == NULL or fact.size < DVT_MIN_ATTRIBUTE or fact.name == NULL:
            raise table.broken(f"fact {i} of device {index} is empty, has no name or is too small")
        if fact.type not in (AttributeType.BOOL, AttributeType.INT, AttributeType.FLOAT, AttributeType.STRING):
            raise table.broken(f"fact {decoded(fact.name)!r} of device {index} has type {fact.type}, which no fact can have")
        name = decoded(fact.name)
        if name in facts:
            raise table.broken(f"states the fact {name!r} of device {index} twice")
        facts[name] = _values(table, fact)[0]
    return facts


# -- what it supports ------------------------------------------------------------------------------


def device_state(Table table, int device):
    """Return (state, why)."""
    cdef Call call = Call(table)
    if table.c.device_state != NULL:
        with call, nogil:
            call.status = table.c.device_state(table.c.state, device, &call.answer)
    return call.status, call.why()


def supports(Table table, View device, View layer, View options):
    """Return (answer, why)."""
    cdef Call call = Call(table)
    with call, nogil:
        call.status = table.c.supports(
            table.c.state, &device.device, layer.subgraph.layers[0], &options.attributes, &call.answer)
    return call.status, call.why()


def claim(Table table, View device, View part, View options):
    """Ask whether a part would be compiled; returns (status, answer)."""
    cdef Call call = Call(table)
    if table.c.claim_subgraph != NULL:
        with call, nogil:
            call.status = table.c.claim_subgraph(
                table.c.state, &device.device, &part.subgraph, &options.attributes, &call.answer)
    return call.status, call.why()


def extension(Table table, name):
    """Return the address of a named table of the backend's own, 0 if it has none."""
    cdef const void *found = NULL
    cdef bytes encoded = name.encode()
    cdef const char *text = PyBytes_AS_STRING(encoded)
    cdef Call call = Call(table)
    if table.c.extension != NULL:
        with call, nogil:
            found = table.c.extension(table.c.state, text)
    return <size_t>found


# -- what it compiles ------------------------------------------------------------------------------


@cython.final
@cython.no_gc
cdef class Compiled:
    """What a table made of a subgraph.

    It is released with the last workload made of it, constants after it.
    """

    @staticmethod
    cdef Compiled begin(Table table, View part):
        cdef Compiled self = Compiled.__new__(Compiled)
        self.table, self.part = table, part
        table.users += 1
        return self

    cdef object finish(self, Call call):
        """Return (status, why, what was compiled or None)."""
        if call.status != DOVETAIL_OK:
            self.handle = NULL      # whatever was left there
        return call.status, call.why(), self if self.handle != NULL else None

    def __dealloc__(self):
        if self.handle != NULL:
            self.table.release_compiled(<size_t>self.handle)
        elif self.table is not None:
            self.table.left()


cdef class _Listener:
    """What the progress callback of one compilation needs, and what it caught."""

    cdef str backend
    cdef object error


cdef int report_progress(void *context, double fraction, const char *what) noexcept with gil:
    cdef _Listener self = <_Listener>context
    try:
        if self.error is None:
            progress.report(self.backend, fraction, one_line(decoded(what)) if what != NULL else "")
            PyErr_CheckSignals()
            load = under_way()
            if load is not None:
                load.check_time()
    except BaseException as error:     # Ctrl-C, the listener's own, or a deadline: raised once the compiler has returned
        self.error = error
    return self.error is not None


def compile_part(Table table, View device, View part, int threads, View options):
    """Compile a part; returns (status, why, Compiled or None).

    Raises:
        BaseException: What the listener of the progress raised, or Ctrl-C.
    """
    cdef dovetail_progress report
    cdef Call call = Call(table, threads)
    cdef Compiled made = Compiled.begin(table, part)
    cdef _Listener listener = _Listener.__new__(_Listener)
    listener.backend = table.id
    memset(&report, 0, sizeof(report))
    report.size, report.context, report.report = sizeof(report), <void *>listener, report_progress
    with call, nogil:
        call.status = table.c.compile_subgraph(
            table.c.state, &device.device, &part.subgraph, &call.resources, &options.attributes, &report, &made.handle,
            &call.answer)
    answer = made.finish(call)
    if listener.error is not None:
        raise listener.error
    if call.status == DOVETAIL_OK and made.handle == NULL:
        raise table.broken("compile_subgraph answered OK without setting *compiled")
    return answer


cdef class _Sink:
    """Collects an artefact's bytes."""

    cdef list parts
    cdef object error


cdef int write_bytes(void *sink, const void *data, size_t count) noexcept with gil:
    cdef _Sink self = <_Sink>sink
    try:
        self.parts.append(PyBytes_FromStringAndSize(<const char *>data, count))
        return DOVETAIL_OK
    except BaseException as error:
        self.error = error
        return DOVETAIL_FAILED


def artefact_save(Table table, Compiled compiled):
    """Return (status, why, bytes)."""
    cdef Call call = Call(table)
    cdef _Sink sink = _Sink.__new__(_Sink)
    sink.parts = []
    with call, nogil:
        call.status = table.c.artefact_save(table.c.state, compiled.handle, write_bytes, <void *>sink, &call.answer)
    if sink.error is not None:
        raise sink.error
    return call.status, call.why(), b"".join(sink.parts)


def artefact_check(Table table, View device, bytes content):
    """Return (answer, why)."""
    cdef const char *data = PyBytes_AS_STRING(content)
    cdef size_t count = len(content)
    cdef Call call = Call(table)
    with call, nogil:
        call.status = table.c.artefact_check(table.c.state, &device.device, data, count, &call.answer)
    return call.status, call.why()


def artefact_load(Table table, View device, int threads, bytes content):
    """Return (status, why, Compiled or None)."""
    cdef const char *data = PyBytes_AS_STRING(content)
    cdef size_t count = len(content)
    cdef Call call = Call(table, threads)
    cdef Compiled made = Compiled.begin(table, None)
    with call, nogil:
        call.status = table.c.artefact_load(
            table.c.state, &device.device, &call.resources, data, count, &made.handle, &call.answer)
    return made.finish(call)
