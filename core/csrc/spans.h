/* When devices worked, of one run that is profiled, in the time of the host. */
#pragma once

#include <stdint.h>

#include "abi.h"

/* So many of one run are kept: a queue that never ends its list must not end the host. */
enum { DVT_MAX_SPANS = 1 << 20 };

typedef struct {
    int32_t step;
    int32_t queue;              /* -1: the step told it itself */
    const char *name;           /* lives until the next run; NULL if it has none */
    int64_t begin, end;         /* CLOCK_MONOTONIC nanoseconds */
} dvt_span;

/* A look at both clocks, and how long it took: it may have been at any moment in between. */
typedef struct {
    int64_t device, host, spread;
} dvt_reading;

typedef struct {
    dvt_span *spans;
    int32_t n_spans;
    int32_t room;
    dvt_reading *begun;         /* per queue */
    char *is_told;              /* per queue: whether it notes spans */
    int32_t n_queues;
    char **names;               /* of spans that steps told */
    int32_t n_names;
    int32_t names_room;
} dvt_spans;

/* Make room for what queues tell. NULL: there is no memory. */
dvt_spans *dvt_spans_create(int32_t n_queues);

/* `spans` may be NULL. */
void dvt_spans_destroy(dvt_spans *spans);

/* Before the first step: have each queue that can note when its device works. */
void dvt_spans_begin(dvt_spans *spans, const dovetail_queues *const *tables, void *const *queues);

/* Keep when a device worked for a step that waited for it itself. A time that is none, or that
 * cannot be kept, is left out. One thread at a time. */
void dvt_spans_tell(dvt_spans *spans, int32_t step, const char *name, int64_t begin, int64_t end);

/* Once everything was waited for: collect what the queues noted of these calls, in the time of the
 * host, and have them note no more. What cannot be kept is left out. `is_wanted` 0: collect
 * nothing, and forget what steps told. */
void dvt_spans_end(dvt_spans *spans, const dovetail_queues *const *tables, void *const *queues, const dovetail_call *calls,
                   int32_t n_calls, int is_wanted);
