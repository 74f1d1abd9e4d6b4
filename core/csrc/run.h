/* Run planned networks without Python: the library behind the runtime.
 *
 *     dvt_pool *pool = dvt_pool_create(threads, 50);
 *     dvt_plan plan = { ... };                         what was planned: steps, tensors, places
 *     dvt_plan_prepare(&plan);
 *     dvt_context context = { .poll = ..., .owner = ... };
 *     dvt_context_make(&context, &plan, arenas, &fault);
 *     dvt_context_point_input(&context, 0, input);     for each input and output
 *     int code = dvt_context_run(&context, 0, 0);      repeatedly, one run of a context at a time
 *     dvt_context_close(&context, &plan);
 *     dvt_context_free(&context);
 *     dvt_plan_release(&plan);
 *     dvt_pool_destroy(pool);
 *
 * Sources: executor.c, plan.c, spans.c, thread_pool.c, usable_cores.c, watchdog.c, worker_times.c;
 * needs abi.h and POSIX threads. tests/c/test_plan.c is a host in this sense.
 */
#pragma once

#include "executor.h"
#include "plan.h"
#include "thread_pool.h"
#include "usable_cores.h"
#include "watchdog.h"
