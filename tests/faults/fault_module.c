/* A Python extension module with a backend in it, and a way to fail that -DFAULT_... chooses. */

#include <Python.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#ifdef MANIFEST
__attribute__((section(".dovetail"), used)) static const char manifest_text[] = MANIFEST;
#endif

#if defined FAULT_UNDEFINED
extern int acme_function_that_is_nowhere(void);
int (*reference)(void) = acme_function_that_is_nowhere;
#elif defined FAULT_OTHER_PYTHON
extern int _PyAcme_RemovedInThisVersion(void);
int (*reference)(void) = _PyAcme_RemovedInThisVersion;
#elif defined FAULT_NEEDS_LIBRARY
extern int acme_driver_version(void);
int (*reference)(void) = acme_driver_version;
#endif

__attribute__((constructor)) static void at_load(void)
{
#if defined FAULT_SIGSEGV
    *(volatile int *)8 = 1;
#elif defined FAULT_SIGILL
    __builtin_trap();
#elif defined FAULT_SIGFPE
    raise(SIGFPE);
#elif defined FAULT_ABORT
    abort();
#elif defined FAULT_EXIT
    _exit(0);
#elif defined FAULT_HANG
    for (;;) pause();
#elif defined FAULT_STACK
    volatile char frame[1 << 14];
    frame[0] = 1;
    at_load();
    frame[1] = frame[0];
#elif defined FAULT_REPLACED
    /* What pip does while somebody loads: a new file takes the place of this one. */
    rename(getenv("DOVETAIL_FAULT_NEW"), getenv("DOVETAIL_FAULT_OLD"));
#endif
}

static void ignore(int number) { (void)number; }

static const char SOURCE[] =
    "import numpy\n"
    "from dovetail import BackendId, IBackend, IWorkloadFactory, Support\n"
    "class Add:\n"
    "    def execute(self, inputs, outputs): numpy.add(inputs[0], inputs[1], out=outputs[0])\n"
    "class Factory(IWorkloadFactory):\n"
    "    def create_workload(self, layer): return Add()\n"
    "class Backend(IBackend):\n"
    "    id = BackendId('" TEXT(ID) "')\n"
    "    def supports(self, layer, options, device):\n"
    "        fits = layer.kind == 'dovetail.ElementwiseBinary' and layer.descriptor.operation == 'add'\n"
    "        return Support.yes() if fits and layer.output_infos[0].dtype.is_float else Support.no('kind', 'only float add')\n"
    "    def create_workload_factory(self, context, resources, options): return Factory()\n";

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, TEXT(NAME), NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC JOIN(PyInit_, NAME)(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) return NULL;
#if defined FAULT_SIDE_EFFECTS
    signal(SIGUSR1, ignore);
#if defined __x86_64__
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040); /* flush to zero, denormals are zero */
#endif
#else
    (void)ignore;
#endif
    PyObject *names = PyModule_GetDict(module);
    if (PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) < 0) return NULL;
    PyObject *result = PyRun_String(SOURCE, Py_file_input, names, names);
    if (result == NULL) return NULL;
    Py_DECREF(result);
    return module;
}
