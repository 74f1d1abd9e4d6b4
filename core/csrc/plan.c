#include "plan.h"

#include <stdlib.h>
#include <string.h>

/* calloc may answer NULL where nothing is asked for. */
static void *zeroed(int64_t count, size_t size)
{
    return calloc(count > 0 ? (size_t)count : 1, size);
}

static int is_left_out(const dvt_plan *plan, int32_t tensor)
{
    return plan->tensors[tensor].ndim < 0;
}

static int is_shared(const dvt_plan *plan, const dvt_place *place)
{
    return place->index >= 0 && place->storage == DVT_IN_ARENA && place->index == plan->shared_arena;
}

/* Count the slots that lie in each input or output, into begin[k + 1]; what is shared or lies
 * elsewhere is told apart. */
static void count_slots(dvt_plan *plan)
{
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const dvt_plan_step *step = &plan->steps[s];
        for (int32_t i = 0; i < step->n_inputs + step->n_outputs; i++, plan->n_slots++) {
            const dvt_place *place = &plan->places[step->tensors[i]];
            if (is_left_out(plan, step->tensors[i])) {
                continue;
            }
            if (place->storage == DVT_IN_INPUT) {
                plan->input_begin[place->index + 1]++;
            } else if (place->storage == DVT_IN_OUTPUT) {
                plan->output_begin[place->index + 1]++;
            } else {
                plan->n_shared += is_shared(plan, place);
            }
        }
        plan->n_shared += is_shared(plan, &step->workspace) + is_shared(plan, &step->worker_workspace);
    }
    for (int32_t k = 0; k < plan->n_inputs; k++) {
        plan->input_begin[k + 1] += plan->input_begin[k];
    }
    for (int32_t k = 0; k < plan->n_outputs; k++) {
        plan->output_begin[k + 1] += plan->output_begin[k];
    }
}

int dvt_plan_prepare(dvt_plan *plan)
{
    plan->n_slots = plan->n_shared = 0;
    plan->run_steps = zeroed(plan->n_steps, sizeof *plan->run_steps);
    plan->input_begin = zeroed(plan->n_inputs + 1, sizeof *plan->input_begin);
    plan->output_begin = zeroed(plan->n_outputs + 1, sizeof *plan->output_begin);
    if (!plan->run_steps || !plan->input_begin || !plan->output_begin) {
        dvt_plan_release(plan);
        return DOVETAIL_OUT_OF_MEMORY;
    }
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const dovetail_workload *workload = plan->steps[s].workload;
        plan->run_steps[s] = (dvt_step){.kind = workload ? DVT_STEP_EXECUTE : DVT_STEP_WAIT, .queue = plan->steps[s].queue};
        if (workload) {
            plan->run_steps[s].state = workload->state;
            plan->run_steps[s].execute = workload->execute;
        }
    }
    count_slots(plan);
    return 0;
}

void dvt_plan_release(dvt_plan *plan)
{
    free(plan->run_steps);
    free(plan->input_begin);
    free(plan->output_begin);
    plan->run_steps = NULL;
    plan->input_begin = plan->output_begin = NULL;
}

static int allocate(dvt_context *context, const dvt_plan *plan)
{
    context->calls = zeroed(plan->n_steps, sizeof *context->calls);
    context->queues = zeroed(plan->n_queues, sizeof *context->queues);
    context->pending = zeroed(plan->n_queues, 1);
    context->tensors = zeroed(plan->n_slots, sizeof *context->tensors);
    context->input_patches = zeroed(plan->input_begin[plan->n_inputs], sizeof *context->input_patches);
    context->output_patches = zeroed(plan->output_begin[plan->n_outputs], sizeof *context->output_patches);
    context->shared_patches = zeroed(plan->n_shared, sizeof *context->shared_patches);
    return context->calls && context->queues && context->pending && context->tensors && context->input_patches
        && context->output_patches && context->shared_patches;
}

/* What is filled in so far of each kind of patch. */
struct filled {
    int32_t *inputs, *outputs, shared;
};

static void point(dvt_context *context, const dvt_plan *plan, const dvt_arena *arenas, struct filled *filled, void **pointer,
                  const dvt_place *place)
{
    *pointer = (char *)arenas[place->index].address + place->offset;
    if (is_shared(plan, place)) {
        context->shared_patches[filled->shared++] = (dvt_pointer_patch){pointer, place->offset};
    }
}

static void place_tensor(dvt_context *context, const dvt_plan *plan, const dvt_arena *arenas, struct filled *filled,
                         dovetail_tensor *tensor, const dvt_place *place)
{
    const dvt_patch patch = {tensor, place->offset};
    switch (place->storage) {
    case DVT_IN_INPUT:
        context->input_patches[filled->inputs[place->index]++] = patch;
        return;
    case DVT_IN_OUTPUT:
        context->output_patches[filled->outputs[place->index]++] = patch;
        return;
    case DVT_IN_CONSTANT:
        tensor->data = plan->constants[place->index] + place->offset;
        return;
    default:
        if (arenas[place->index].on_host) {
            point(context, plan, arenas, filled, &tensor->data, place);
        } else {
            tensor->device.device_type = DOVETAIL_ON_DEVICE;
            tensor->data = arenas[place->index].address;
            tensor->byte_offset = (uint64_t)place->offset;
        }
    }
}

static void fill_in_call(dvt_context *context, const dvt_plan *plan, const dvt_arena *arenas, struct filled *filled, int32_t s,
                         dovetail_tensor *slots)
{
    const dvt_plan_step *step = &plan->steps[s];
    dovetail_call *call = &context->calls[s];
    call->size = sizeof *call;
    call->host = &dvt_host;
    call->context = context;
    call->workers = plan->threads;
    call->inputs = slots;
    call->n_inputs = step->n_inputs;
    call->outputs = slots + step->n_inputs;
    call->n_outputs = step->n_outputs;
    for (int32_t i = 0; i < step->n_inputs + step->n_outputs; i++) {
        slots[i] = plan->tensors[step->tensors[i]];
        if (!is_left_out(plan, step->tensors[i])) {     /* else data stays NULL */
            place_tensor(context, plan, arenas, filled, &slots[i], &plan->places[step->tensors[i]]);
        }
    }
    if (step->queue >= 0) {
        call->queue = context->queues[step->queue];
    }
    if (step->workspace.index >= 0 && arenas[step->workspace.index].on_host) {
        point(context, plan, arenas, filled, &call->workspace, &step->workspace);
    } else if (step->workspace.index >= 0) {
        call->workspace = arenas[step->workspace.index].address;
        call->workspace_offset = (size_t)step->workspace.offset;
    }
    if (step->worker_workspace.index >= 0) {
        point(context, plan, arenas, filled, &call->worker_workspace, &step->worker_workspace);
        call->worker_stride = step->worker_stride;
    }
}

static int fill_in_calls(dvt_context *context, const dvt_plan *plan, const dvt_arena *arenas)
{
    struct filled filled = {
        .inputs = zeroed(plan->n_inputs, sizeof(int32_t)),
        .outputs = zeroed(plan->n_outputs, sizeof(int32_t)),
    };
    int done = filled.inputs && filled.outputs;
    if (done) {
        memcpy(filled.inputs, plan->input_begin, sizeof(int32_t) * (size_t)plan->n_inputs);
        memcpy(filled.outputs, plan->output_begin, sizeof(int32_t) * (size_t)plan->n_outputs);
        dovetail_tensor *slots = context->tensors;
        for (int32_t s = 0; s < plan->n_steps; s++) {
            fill_in_call(context, plan, arenas, &filled, s, slots);
            slots += plan->steps[s].n_inputs + plan->steps[s].n_outputs;
        }
        context->n_shared = filled.shared;
    }
    free(filled.inputs);
    free(filled.outputs);
    return done;
}

static int create_queues(dvt_context *context, const dvt_plan *plan, dvt_fault *fault)
{
    for (int32_t q = 0; q < plan->n_queues; q++) {
        const dovetail_queues *table = plan->queue_tables[q];
        int code = table->queue_create(table->state, plan->queue_devices[q], &context->queues[q]);
        if (code != DOVETAIL_OK) {
            context->queues[q] = NULL;
            *fault = (dvt_fault){DVT_FAULT_QUEUE, q, code};
            return code;
        }
    }
    return DOVETAIL_OK;
}

static int create_runs(dvt_context *context, const dvt_plan *plan, dvt_fault *fault)
{
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const dovetail_workload *workload = plan->steps[s].workload;
        if (workload && workload->create_run) {
            int code = workload->create_run(workload->state, context->calls[s].queue, &context->calls[s].run_data);
            if (code != DOVETAIL_OK) {
                *fault = (dvt_fault){DVT_FAULT_RUN, s, code};
                return code;
            }
        }
        context->runs_created = s + 1;
    }
    return DOVETAIL_OK;
}

int dvt_context_make(dvt_context *context, const dvt_plan *plan, const dvt_arena *arenas, dvt_fault *fault)
{
    *fault = (dvt_fault){DVT_FAULT_NONE, -1, DOVETAIL_OK};
    context->steps = plan->run_steps;
    context->n_steps = plan->n_steps;
    context->n_queues = plan->n_queues;
    context->queue_tables = plan->queue_tables;
    context->pool = plan->pool;
    context->threads = plan->threads;
    context->input_begin = plan->input_begin;
    context->output_begin = plan->output_begin;
    int code = DOVETAIL_OUT_OF_MEMORY;
    if (!allocate(context, plan)) {
        *fault = (dvt_fault){DVT_FAULT_MEMORY, -1, code};
    } else if ((code = create_queues(context, plan, fault)) == DOVETAIL_OK) {
        if (!fill_in_calls(context, plan, arenas)) {
            code = DOVETAIL_OUT_OF_MEMORY;
            *fault = (dvt_fault){DVT_FAULT_MEMORY, -1, code};
        } else {
            context->shared = plan->shared_arena >= 0 ? arenas[plan->shared_arena].address : NULL;
            code = create_runs(context, plan, fault);
        }
    }
    if (code != DOVETAIL_OK) {
        dvt_context_close(context, plan);
        dvt_context_free(context);
    }
    return code;
}

void dvt_context_bind(dvt_context *context)
{
    for (int32_t s = 0; s < context->n_steps; s++) {
        context->calls[s].flags |= DOVETAIL_CALL_BOUND;
    }
}

void dvt_context_attach(dvt_context *context, const dvt_plan *plan, void *shared)
{
    (void)plan;
    if (shared != context->shared) {
        for (int32_t i = 0; i < context->n_shared; i++) {
            *context->shared_patches[i].pointer = (char *)shared + context->shared_patches[i].offset;
        }
        context->shared = shared;
    }
}

void dvt_context_close(dvt_context *context, const dvt_plan *plan)
{
    for (int32_t s = 0; s < context->runs_created; s++) {
        const dovetail_workload *workload = plan->steps[s].workload;
        if (workload && workload->release_run) {
            workload->release_run(workload->state, context->calls[s].run_data);
        }
    }
    context->runs_created = 0;
    for (int32_t q = 0; context->queues && q < plan->n_queues; q++) {
        if (context->queues[q]) {
            plan->queue_tables[q]->queue_destroy(context->queues[q]);
            context->queues[q] = NULL;
        }
    }
}

void dvt_context_free(dvt_context *context)
{
    dvt_context_profile(context, 0);
    free(context->calls);
    free(context->queues);
    free(context->pending);
    free(context->tensors);
    free(context->input_patches);
    free(context->output_patches);
    free(context->shared_patches);
    context->calls = NULL;
    context->queues = NULL;
    context->pending = NULL;
    context->tensors = NULL;
    context->input_patches = context->output_patches = NULL;
    context->shared_patches = NULL;
}

int dvt_context_profile(dvt_context *context, int wanted)
{
    if (wanted && !context->times) {
        context->times = zeroed(2 * (int64_t)context->n_steps, sizeof *context->times);
        context->marks = zeroed(DVT_MAX_MARKS, sizeof *context->marks);
        context->spans = dvt_spans_create(context->n_queues);
        context->workers = dvt_worker_times_create(context->n_steps, context->threads);
        if (context->times && context->marks && context->spans && context->workers) {
            return 0;
        }
    } else if (wanted) {
        return 0;
    }
    free(context->times);
    free(context->marks);
    free(context->workers);
    dvt_spans_destroy(context->spans);
    context->times = NULL;
    context->marks = NULL;
    context->workers = NULL;
    context->spans = NULL;
    return wanted ? DOVETAIL_OUT_OF_MEMORY : 0;
}
