"""Name the codes of functions of one and two elements, as layers do; headers hold the tables."""

cdef extern from *:
    """
    #include "dovetail_neon/elementwise/parameters.h"

    #define ACC_NAME(code, name) name,
    static const char *const acc_function_names[] = {ACC_FUNCTIONS(ACC_NAME)};
    static const char *const acc_operation_names[] = {ACC_OPERATIONS(ACC_NAME)};
    enum { ACC_FUNCTION_COUNT = sizeof(acc_function_names) / sizeof(char *) };
    enum { ACC_OPERATION_COUNT = sizeof(acc_operation_names) / sizeof(char *) };
    """
    const char *const acc_function_names[]
    const char *const acc_operation_names[]
    int ACC_FUNCTION_COUNT
    int ACC_OPERATION_COUNT


FUNCTIONS = {acc_function_names[code].decode(): code for code in range(ACC_FUNCTION_COUNT)}
OPERATIONS = {acc_operation_names[code].decode(): code for code in range(ACC_OPERATION_COUNT)}
