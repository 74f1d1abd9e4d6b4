/* Sizes of the structs that test_taken_structs.py writes down in Python. */
#include <abi.h>

int size_of_workload(void) { return (int)sizeof(dovetail_workload); }
int size_of_queues(void) { return (int)sizeof(dovetail_queues); }
