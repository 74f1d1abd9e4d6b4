/* A plan as C sees it, and how a run context is made of it.
 *
 * Whoever made the plan owns it and all that it points at, and keeps both until its last context is
 * closed. Nothing here knows Python: any host that fills in a `dvt_plan` can run it (see run.h).
 */
#pragma once

#include "executor.h"

enum { DVT_IN_ARENA = 0, DVT_IN_CONSTANT = 1, DVT_IN_INPUT = 2, DVT_IN_OUTPUT = 3 };

/* Where the bytes of a tensor or of scratch lie: `offset` bytes behind the beginning of the arena,
 * constant, input or output `index`. */
typedef struct {
    int32_t storage;
    int32_t index;              /* -1: nowhere */
    int64_t offset;
} dvt_place;

typedef struct {
    const dovetail_workload *workload;  /* NULL: a wait */
    int32_t queue;              /* index of the queue that is enqueued on or waited for; -1: none */
    int32_t n_inputs, n_outputs;
    const int32_t *tensors;     /* numbers of the inputs, then of the outputs */
    dvt_place workspace, worker_workspace;
    size_t worker_stride;       /* bytes of scratch for each worker */
} dvt_plan_step;

typedef struct {
    int32_t n_steps, n_tensors, n_inputs, n_outputs, n_arenas, n_queues;
    const dvt_plan_step *steps;
    const dovetail_tensor *tensors;     /* types and shapes; data unset. ndim -1: an input that is left out */
    const dvt_place *places;    /* of the tensors */
    char *const *constants;
    const dovetail_queues *const *queue_tables;
    const int32_t *queue_devices;
    dvt_pool *pool;
    int32_t threads;            /* of the pool, that a run may use */
    int32_t shared_arena;       /* an arena in host memory that a context may be given anew (dvt_context_attach); -1: none */
    /* made by dvt_plan_prepare */
    dvt_step *run_steps;
    int32_t *input_begin, *output_begin;    /* of the tensors that lie in input k: [begin[k], begin[k + 1]) */
    int32_t n_slots, n_shared;
} dvt_plan;

typedef struct {
    void *address;              /* a pointer if `on_host`, else what the device calls its memory */
    int on_host;
} dvt_arena;

/* What kept a context from being made. */
typedef struct {
    enum { DVT_FAULT_NONE = 0, DVT_FAULT_MEMORY, DVT_FAULT_QUEUE, DVT_FAULT_RUN } what;
    int32_t index;              /* of the queue, or of the step */
    int code;
} dvt_fault;

/* Work out what all contexts share. Returns 0, or DOVETAIL_OUT_OF_MEMORY. */
int dvt_plan_prepare(dvt_plan *plan);

/* Free what dvt_plan_prepare made; the plan has no context any more. */
void dvt_plan_release(dvt_plan *plan);

/* Make a context: zeroed, but for `owner` and `poll`, which are the caller's. `arenas`: one for
 * each of the plan, at least as large as planned. Returns 0, or a code with *fault filled in; then
 * nothing is left that dvt_context_close would have to end. */
int dvt_context_make(dvt_context *context, const dvt_plan *plan, const dvt_arena *arenas, dvt_fault *fault);

/* Promise that no tensor moves until dvt_context_close: inputs and outputs are pointed at once,
 * before the first run, and nothing is attached. */
void dvt_context_bind(dvt_context *context);

/* Take other memory in the place of the shared arena. */
void dvt_context_attach(dvt_context *context, const dvt_plan *plan, void *shared);

/* End what backends made for the context: runs, then queues. Idempotent. */
void dvt_context_close(dvt_context *context, const dvt_plan *plan);

/* Free the context's own memory, after dvt_context_close, or without it where what backends made
 * must be left alone. */
void dvt_context_free(dvt_context *context);

/* Begin or end to take the times of each step, and of devices. Returns 0, or
 * DOVETAIL_OUT_OF_MEMORY. */
int dvt_context_profile(dvt_context *context, int wanted);

static inline void dvt_point(const dvt_patch *patches, const int32_t *begin, int32_t k, void *data)
{
    for (int32_t i = begin[k]; i < begin[k + 1]; i++) {
        patches[i].tensor->data = (char *)data + patches[i].offset;
    }
}

/* Let the tensors that lie in input or output k lie in the caller's memory, for runs from now on.
 * */
static inline void dvt_context_point_input(dvt_context *context, int32_t k, void *data)
{
    dvt_point(context->input_patches, context->input_begin, k, data);
}

static inline void dvt_context_point_output(dvt_context *context, int32_t k, void *data)
{
    dvt_point(context->output_patches, context->output_begin, k, data);
}
