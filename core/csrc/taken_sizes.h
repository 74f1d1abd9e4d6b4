/* How much of each struct of abi.h a backend fills in at least: up to its last required field. */
#pragma once

#include <stddef.h>

#include "abi.h"

#define DVT_END_OF(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

#define DVT_STRUCT_HEAD DVT_END_OF(dovetail_workload, abi_minor) /* the same in dovetail_queues and dovetail_backend */
#define DVT_MIN_BACKEND DVT_END_OF(dovetail_backend, supports)
#define DVT_MIN_WORKLOAD DVT_END_OF(dovetail_workload, execute)
#define DVT_MIN_QUEUES DVT_END_OF(dovetail_queues, queue_destroy)
#define DVT_MIN_DEVICE DVT_END_OF(dovetail_device_info, memory_bytes)
#define DVT_MIN_MEMORY DVT_END_OF(dovetail_memory, host_visible)
#define DVT_MIN_OPTION DVT_END_OF(dovetail_option, value)
#define DVT_MIN_ATTRIBUTE DVT_END_OF(dovetail_attribute, tensor)
#define DVT_MIN_KIND_VERSION DVT_END_OF(dovetail_kind_version, version)
