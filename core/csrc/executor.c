#include "executor.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Waiting on a device is cut into slices, so that Ctrl-C and deadlines are seen. */
#define WAIT_SLICE_NS INT64_C(20000000)

static inline int stop_bits(dvt_context *context)
{
    return atomic_load_explicit(&context->watch.stop, memory_order_relaxed);
}

static inline int on_owner_thread(const dvt_context *context)
{
    return context->owner_thread == (void *)pthread_self();
}

static void poll_signals(void *arg)
{
    dvt_context *context = arg;
    if (dvt_watch_take_poll(&context->watch) && context->poll(context)) {
        atomic_fetch_or_explicit(&context->watch.stop, DVT_CANCELLED, memory_order_relaxed);
    }
}

static int host_parallel_for(const dovetail_call *call, int64_t range, int64_t grain, dovetail_body body, void *arg)
{
    dvt_context *context = call->context;
    void (*poll)(void *) = on_owner_thread(context) ? poll_signals : NULL;
    int undone = context->workers ? dvt_worker_times_run(context->workers, (int32_t)(call - context->calls), context->pool,
                                                         call->workers, range, grain, body, arg, &context->watch.stop, poll,
                                                         context)
                                  : dvt_pool_run(context->pool, call->workers, range, grain, body, arg, &context->watch.stop,
                                                 poll, context);
    if (!undone && !(stop_bits(context) & DVT_ENDED)) {
        return DOVETAIL_OK;
    }
    return stop_bits(context) & DVT_STEP_FAILED ? DOVETAIL_FAILED : DOVETAIL_CANCELLED;
}

static int host_is_cancelled(const dovetail_call *call)
{
    dvt_context *context = call->context;
    int bits = stop_bits(context);
    if (bits & DVT_POLL && on_owner_thread(context)) {
        poll_signals(context);
        bits = stop_bits(context);
    }
    return bits & DVT_ENDED;
}

static int host_fail(const dovetail_call *call, int code, const char *message)
{
    dvt_context *context = call->context;
    int none = 0;
    if (code == DOVETAIL_OK || (code == DOVETAIL_CANCELLED && !(stop_bits(context) & DVT_ENDED))) {
        code = DOVETAIL_FAILED; /* a backend does not cancel a run that nobody else wants to end */
    }
    if (atomic_compare_exchange_strong(&context->failure, &none, 1)) {
        context->code = code;
        context->failed_step = (int32_t)(call - context->calls);
        snprintf(context->message, sizeof context->message, "%s", message ? message : "");
        atomic_store_explicit(&context->failure, 2, memory_order_release);
        atomic_fetch_or_explicit(&context->watch.stop, DVT_STEP_FAILED, memory_order_relaxed);
    }
    return code;
}

static void host_profile_mark(const dovetail_call *call, const char *name)
{
    dvt_context *context = call->context;
    if (!context->times) {
        return;
    }
    int slot = atomic_fetch_add_explicit(&context->n_marks, 1, memory_order_relaxed);
    if (slot < DVT_MAX_MARKS) {
        context->marks[slot] = (dvt_mark){name, dvt_now_ns(), (int32_t)(call - context->calls)};
    }
}

static const void *host_extension(const char *name)
{
    (void)name;                 /* none yet: the door is there so that none needs a new major */
    return NULL;
}

const dovetail_host dvt_host = {
    sizeof(dovetail_host), DOVETAIL_ABI_MAJOR, DOVETAIL_ABI_MINOR,
    host_parallel_for, host_is_cancelled, host_fail, host_profile_mark, host_extension,
};

static const char *without_reason(int status, const char *otherwise)
{
    return status == DOVETAIL_CANCELLED ? "it answered that the run was cancelled, which nobody had asked for" : otherwise;
}

static int record_failure(dvt_context *context, int32_t step, int code, const char *message)
{
    const dovetail_call *call = &context->calls[step];
    int used = host_fail(call, code, message);
    return atomic_load(&context->failure) == 2 ? context->code : used;
}

/* Until when to wait at once: a slice, but not beyond the run's deadline. */
static int64_t next_look(const dvt_context *context, int64_t now)
{
    const int64_t deadline = context->watch.deadline;
    return !deadline || deadline > now + WAIT_SLICE_NS ? now + WAIT_SLICE_NS : deadline > now ? deadline : now;
}

/* Wait for one queue. While the run is alive a slice at a time; once it has ended, until drained or
 * given up. What an aborted queue answers says nothing about the run: it has ended for another
 * reason, and its results are void. */
static int wait_for(dvt_context *context, int32_t queue, int32_t step)
{
    const dovetail_queues *table = context->queue_tables[queue];
    void *handle = context->queues[queue];
    int64_t give_up = 0;
    for (;;) {
        int64_t now = dvt_now_ns();
        int status = table->queue_wait(handle, give_up ? now + WAIT_SLICE_NS : next_look(context, now));
        if (status != DOVETAIL_PENDING) {
            context->pending[queue] = 0;
            if (status == DOVETAIL_OK && !give_up) {
                return DOVETAIL_OK;
            }
            if (give_up || stop_bits(context) & DVT_ENDED) {
                return DOVETAIL_CANCELLED;
            }
            const char *text = DOVETAIL_HAS(table, queue_error) && table->queue_error ? table->queue_error(handle) : NULL;
            return record_failure(context, step, status, 
                                  text ? text : without_reason(status, "the device reported a failure"));
        }
        if (!give_up) {
            if (on_owner_thread(context)) {
                poll_signals(context);
            }
            if (context->watch.deadline && dvt_now_ns() >= context->watch.deadline) {
                atomic_fetch_or_explicit(&context->watch.stop, DVT_TIMED_OUT, memory_order_relaxed);
            }
            if (stop_bits(context) & DVT_ENDED) {
                table->queue_abort(handle);
                give_up = dvt_now_ns() + DVT_DRAIN_NS;
            }
        } else if (now > give_up) {
            context->stuck = 1;
            context->pending[queue] = 0;    /* not to be waited for again */
            return DOVETAIL_CANCELLED;
        }
    }
}

static void drain(dvt_context *context)
{
    for (int32_t q = 0; q < context->n_queues; q++) {
        if (context->pending[q]) {
            context->queue_tables[q]->queue_abort(context->queues[q]);
            wait_for(context, q, context->current_step);
        }
    }
}

static int run_step(dvt_context *context, int32_t index)
{
    const dvt_step *step = &context->steps[index];
    if (step->kind == DVT_STEP_WAIT) {
        return context->pending[step->queue] ? wait_for(context, step->queue, index) : DOVETAIL_OK;
    }
    if (step->queue >= 0) {
        context->pending[step->queue] = 1;
    }
    return step->execute(step->state, &context->calls[index]);
}

/* Why a run ends that is asked to: a failure recorded by a pool thread comes before a cancellation.
 * */
static int ended_code(const dvt_context *context, int bits)
{
    return bits & DVT_STEP_FAILED ? context->code : DOVETAIL_CANCELLED;
}

static int run_steps(dvt_context *context)
{
    for (int32_t i = 0; i < context->n_steps; i++) {
        int bits = stop_bits(context);
        if (__builtin_expect(bits != 0, 0)) {
            poll_signals(context);
            bits = stop_bits(context);
            if (bits & DVT_ENDED) {
                return ended_code(context, bits);
            }
        }
        context->current_step = i;
        if (context->times) {
            context->times[2 * i] = dvt_now_ns();
        }
        int status = run_step(context, i);
        if (context->times) {
            context->times[2 * i + 1] = dvt_now_ns();
        }
        if (__builtin_expect(status != DOVETAIL_OK, 0)) {
            bits = stop_bits(context);
            if (status == DOVETAIL_CANCELLED && bits & DVT_ENDED) {
                return ended_code(context, bits);
            }
            return record_failure(context, i, status, without_reason(status, "execute returned an error without saying why"));
        }
    }
    return DOVETAIL_OK;
}

int dvt_context_run(dvt_context *context, int64_t deadline, int wants_poll)
{
    context->owner_thread = wants_poll ? (void *)pthread_self() : NULL;
    atomic_store_explicit(&context->failure, 0, memory_order_relaxed);
    atomic_store_explicit(&context->n_marks, 0, memory_order_relaxed);
    if (context->workers) {
        atomic_store_explicit(&context->workers->n_works, 0, memory_order_relaxed);
    }
    int unwatched = dvt_watch_begin(&context->watch, deadline, wants_poll);
    if (context->spans) {
        dvt_spans_begin(context->spans, context->queue_tables, context->queues);
    }
    int status = unwatched && deadline ? DVT_UNWATCHED : run_steps(context);
    if (context->n_queues) {
        drain(context);
    }
    if (context->spans && context->stuck) {
        context->spans->n_spans = 0;
    } else if (context->spans) {
        dvt_spans_end(context->spans, context->queue_tables, context->queues, context->calls, context->n_steps,
                      status == DOVETAIL_OK);
    }
    /* A pool thread may have failed in the very last chunk of a step that itself returned 0. */
    if (status == DOVETAIL_OK && stop_bits(context) & DVT_STEP_FAILED) {
        status = context->code;
    }
    dvt_watch_end(&context->watch);
    return status;
}

void dvt_context_cancel(dvt_context *context)
{
    atomic_fetch_or_explicit(&context->watch.stop, DVT_CANCELLED, memory_order_relaxed);
}
