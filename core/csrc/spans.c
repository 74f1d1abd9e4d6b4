#define _GNU_SOURCE
#include "spans.h"

#include <stdlib.h>
#include <string.h>

#include "watchdog.h"

dvt_spans *dvt_spans_create(int32_t n_queues)
{
    dvt_spans *made = calloc(1, sizeof *made);
    if (made) {
        made->n_queues = n_queues;
        made->begun = calloc((size_t)n_queues + 1, sizeof *made->begun);
        made->is_told = calloc((size_t)n_queues + 1, 1);
        if (!made->begun || !made->is_told) {
            dvt_spans_destroy(made);
            return NULL;
        }
    }
    return made;
}

static void forget_names(dvt_spans *spans)
{
    while (spans->n_names > 0) {
        free(spans->names[--spans->n_names]);
    }
}

void dvt_spans_destroy(dvt_spans *spans)
{
    if (spans) {
        forget_names(spans);
        free(spans->names);
        free(spans->spans);
        free(spans->begun);
        free(spans->is_told);
        free(spans);
    }
}

static int can_tell(const dovetail_queues *table)
{
    return DOVETAIL_HAS(table, queue_span) && table->queue_profile && table->queue_span;
}

/* Returns 0 if the clocks were read. */
static int read_clocks(const dovetail_queues *table, void *queue, dvt_reading *reading)
{
    int64_t before = dvt_now_ns();
    if (!DOVETAIL_HAS(table, queue_clock) || !table->queue_clock) {
        *reading = (dvt_reading){before, before, 0};
        return 0;
    }
    int status = table->queue_clock(queue, &reading->device, &reading->host);
    reading->spread = dvt_now_ns() - before;
    return status != DOVETAIL_OK;
}

void dvt_spans_begin(dvt_spans *spans, const dovetail_queues *const *tables, void *const *queues)
{
    spans->n_spans = 0;
    forget_names(spans);
    for (int32_t q = 0; q < spans->n_queues; q++) {
        spans->is_told[q] = can_tell(tables[q]) && tables[q]->queue_profile(queues[q], 1) == DOVETAIL_OK;
        if (spans->is_told[q] && read_clocks(tables[q], queues[q], &spans->begun[q])) {
            tables[q]->queue_profile(queues[q], 0);
            spans->is_told[q] = 0;
        }
    }
}

/* A line from the device's time to the host's. */
typedef struct {
    int64_t device, host;
    double rate;
} line;

/* Two clocks that tick alike, as far as their readings tell, differ by the average of both
 * differences: a rate that is taken from a short run would say more of how it was read. Others are
 * joined by a line through both readings. */
static line line_through(const dvt_reading *from, const dvt_reading *to)
{
    int64_t device = to->device - from->device, host = to->host - from->host;
    int64_t difference = host > device ? host - device : device - host;
    if (device <= 0 || difference <= from->spread + to->spread) {
        return (line){from->device, from->host + (host - device) / 2, 1};
    }
    return (line){from->device, from->host, (double)host / (double)device};
}

static int64_t on_host(const line *line, int64_t device)
{
    return line->host + (int64_t)((double)(device - line->device) * line->rate);
}

static int keep(dvt_spans *spans, const dvt_span *span)
{
    if (spans->n_spans == spans->room) {
        int32_t room = spans->room ? 2 * spans->room : 256;
        dvt_span *more = realloc(spans->spans, (size_t)room * sizeof *more);
        if (!more) {
            return -1;
        }
        spans->spans = more;
        spans->room = room;
    }
    spans->spans[spans->n_spans++] = *span;
    return 0;
}

/* A copy of a text that lives until the next run; NULL if there is no memory. */
static const char *kept_name(dvt_spans *spans, const char *name)
{
    if (spans->n_names && strcmp(spans->names[spans->n_names - 1], name) == 0) {
        return spans->names[spans->n_names - 1];
    }
    if (spans->n_names == spans->names_room) {
        int32_t room = spans->names_room ? 2 * spans->names_room : 16;
        char **more = realloc(spans->names, (size_t)room * sizeof *more);
        if (!more) {
            return NULL;
        }
        spans->names = more;
        spans->names_room = room;
    }
    char *copy = strdup(name);
    if (copy) {
        spans->names[spans->n_names++] = copy;
    }
    return copy;
}

void dvt_spans_tell(dvt_spans *spans, int32_t step, const char *name, int64_t begin, int64_t end)
{
    if (spans->n_spans < DVT_MAX_SPANS && 0 <= begin && begin <= end) {
        dvt_span span = {step, -1, kept_name(spans, name), begin, end};
        keep(spans, &span);
    }
}

static void collect(dvt_spans *spans, int32_t queue, const dovetail_queues *table, void *handle, const dovetail_call *calls,
                    int32_t n_calls)
{
    dvt_reading ended;
    if (read_clocks(table, handle, &ended)) {
        return;
    }
    line line = line_through(&spans->begun[queue], &ended);
    for (int32_t i = 0; spans->n_spans < DVT_MAX_SPANS; i++) {
        dovetail_span told = {.size = sizeof told};
        if (table->queue_span(handle, i, &told) != DOVETAIL_OK) {
            return;
        }
        if (told.call < calls || told.call >= calls + n_calls) {
            continue;           /* of nothing that is known here */
        }
        dvt_span span = {(int32_t)(told.call - calls), queue, told.name, on_host(&line, told.begin), on_host(&line, told.end)};
        if (keep(spans, &span)) {
            return;
        }
    }
}

void dvt_spans_end(dvt_spans *spans, const dovetail_queues *const *tables, void *const *queues, const dovetail_call *calls,
                   int32_t n_calls, int is_wanted)
{
    if (!is_wanted) {
        spans->n_spans = 0;
    }
    for (int32_t q = 0; q < spans->n_queues; q++) {
        if (spans->is_told[q]) {
            if (is_wanted) {
                collect(spans, q, tables[q], queues[q], calls, n_calls);
            }
            tables[q]->queue_profile(queues[q], 0);
            spans->is_told[q] = 0;
        }
    }
}
