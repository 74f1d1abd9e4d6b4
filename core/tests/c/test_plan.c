/* A host without Python: plans made by hand, run through run.h alone. */
#include "../../csrc/run.h"

#include "check.h"

enum { N = 1000 };

/* Workloads: y = scale * x + bias over a pool, counting what is made of them. */

struct affine {
    float scale, bias;
    int runs_made, runs_ended, refuses_run, fails;
};

static const float *data_of(const dovetail_tensor *tensor)
{
    return (const float *)((char *)tensor->data + tensor->byte_offset);
}

static void compute(int64_t begin, int64_t end, UNUSED int worker, void *arg)
{
    const dovetail_call *call = arg;
    const struct affine *self = call->run_data;
    float *y = (float *)(uintptr_t)data_of(&call->outputs[0]);
    for (int64_t i = begin; i < end; i++) {
        y[i] = self->scale * data_of(&call->inputs[0])[i] + self->bias;
    }
}

static int execute(void *state, const dovetail_call *call)
{
    struct affine *self = state;
    CHECK(call->run_data == self && call->size == sizeof *call && call->n_inputs == 1 && call->n_outputs == 1);
    if (self->fails) {
        return call->host->fail(call, DOVETAIL_FAILED, "this one fails");
    }
    return call->host->parallel_for(call, N, 64, compute, (void *)(uintptr_t)call);
}

static int create_run(void *state, UNUSED void *queue, void **run_data)
{
    struct affine *self = state;
    if (self->refuses_run) {
        return DOVETAIL_OUT_OF_MEMORY;
    }
    self->runs_made++;
    *run_data = self;
    return DOVETAIL_OK;
}

static void release_run(void *state, void *run_data)
{
    CHECK(state == run_data);
    ((struct affine *)state)->runs_ended++;
}

/* -- a queue that remembers whether it is there
 * ---------------------------------------------------------------------------- */

static int queues_alive, queue_refused;

static int queue_create(UNUSED void *state, int32_t device, void **queue)
{
    CHECK(device == 3);
    if (queue_refused) {
        return DOVETAIL_FAILED;
    }
    queues_alive++;
    *queue = &queues_alive;
    return DOVETAIL_OK;
}

static void queue_destroy(void *queue)
{
    CHECK(queue == &queues_alive);
    queues_alive--;
}

static int queue_wait(void *queue, UNUSED int64_t deadline)
{
    CHECK(queue == &queues_alive);
    return DOVETAIL_OK;
}

static void queue_abort(UNUSED void *queue)
{
}

/* The device's clock ticks `rate` times as fast as the host's, from an epoch of its own. Its spans
 * begin and end at these times after the first look at the clock. */
static struct {
    int is_told, n_spans, rate, refuses;
    int64_t epoch, times[4][2];
    const dovetail_call *calls[4];
} told;

static int64_t device_time(int64_t host)
{
    return (host - told.epoch) * told.rate + 1000000;
}

static int queue_profile(void *queue, int32_t wanted)
{
    CHECK(queue == &queues_alive && told.is_told == !wanted);
    told.is_told = wanted;
    told.n_spans = 0;
    return told.refuses && wanted ? DOVETAIL_FAILED : DOVETAIL_OK;
}

static int queue_span(UNUSED void *queue, int32_t index, dovetail_span *span)
{
    CHECK(told.is_told && span->size == sizeof *span);
    if (index >= told.n_spans) {
        return 1;
    }
    span->call = told.calls[index];
    span->name = "kernel";
    span->begin = device_time(told.times[index][0]);
    span->end = device_time(told.times[index][1]);
    return DOVETAIL_OK;
}

static int queue_clock(UNUSED void *queue, int64_t *device, int64_t *host)
{
    CHECK(told.is_told);
    *host = dvt_now_ns();
    *device = device_time(*host);
    return DOVETAIL_OK;
}

/* -- x -> first -> arena -> second -> y, with a wait between if it has a queue
 * ---------------------------------------------- */

struct chain {
    struct affine first, second;
    dovetail_workload workloads[2];
    dovetail_queues queues;
    const dovetail_queues *tables[1];
    int32_t devices[1], numbers[4];
    int64_t shape[1], strides[1];
    dovetail_tensor tensors[3];
    dvt_place places[3];
    dvt_plan_step steps[3];
    dvt_plan plan;
};

static void make_chain(struct chain *chain, dvt_pool *pool, int with_queue)
{
    memset(chain, 0, sizeof *chain);
    chain->first = (struct affine){.scale = 2, .bias = 1};
    chain->second = (struct affine){.scale = -3, .bias = 5};
    struct affine *states[2] = {&chain->first, &chain->second};
    chain->shape[0] = N;
    chain->strides[0] = 1;
    for (int i = 0; i < 2; i++) {
        chain->workloads[i] = (dovetail_workload){.size = sizeof(dovetail_workload), .state = states[i], .execute = execute,
                                                  .create_run = create_run, .release_run = release_run};
    }
    for (int i = 0; i < 3; i++) {
        chain->tensors[i] = (dovetail_tensor){.ndim = 1, .dtype = {2, 32, 1}, .shape = chain->shape, .strides = chain->strides};
    }
    chain->places[0] = (dvt_place){DVT_IN_INPUT, 0, 0};
    chain->places[1] = (dvt_place){DVT_IN_ARENA, 0, 64};
    chain->places[2] = (dvt_place){DVT_IN_OUTPUT, 0, 0};
    int32_t numbers[4] = {0, 1, 1, 2};
    memcpy(chain->numbers, numbers, sizeof numbers);
    const dvt_place nowhere = {DVT_IN_ARENA, -1, 0};
    int n = 0;
    chain->steps[n++] = (dvt_plan_step){.workload = &chain->workloads[0], .queue = with_queue ? 0 : -1, .n_inputs = 1,
                                        .n_outputs = 1, .tensors = chain->numbers, .workspace = nowhere,
                                        .worker_workspace = nowhere};
    if (with_queue) {
        chain->steps[n++] = (dvt_plan_step){.queue = 0, .workspace = nowhere, .worker_workspace = nowhere};
    }
    chain->steps[n++] = (dvt_plan_step){.workload = &chain->workloads[1], .queue = -1, .n_inputs = 1, .n_outputs = 1,
                                        .tensors = chain->numbers + 2, .workspace = nowhere, .worker_workspace = nowhere};
    chain->queues = (dovetail_queues){.size = sizeof(dovetail_queues), .queue_create = queue_create, .queue_wait = queue_wait,
                                      .queue_abort = queue_abort, .queue_destroy = queue_destroy};
    chain->tables[0] = &chain->queues;
    chain->devices[0] = 3;
    chain->plan = (dvt_plan){.n_steps = n, .n_tensors = 3, .n_inputs = 1, .n_outputs = 1, .n_arenas = 1,
                             .n_queues = with_queue ? 1 : 0, .steps = chain->steps, .tensors = chain->tensors,
                             .places = chain->places, .queue_tables = chain->tables, .queue_devices = chain->devices,
                             .pool = pool, .threads = dvt_pool_threads(pool), .shared_arena = 0};
    CHECK(dvt_plan_prepare(&chain->plan) == 0);
}

static int never_poll(UNUSED dvt_context *context)
{
    return 0;
}

static int make_context(dvt_context *context, struct chain *chain, void *arena, dvt_fault *fault)
{
    memset(context, 0, sizeof *context);
    context->poll = never_poll;
    return dvt_context_make(context, &chain->plan, &(dvt_arena){arena, 1}, fault);
}

static void check_run(dvt_context *context, float begin)
{
    static float x[N], y[N];
    for (int i = 0; i < N; i++) {
        x[i] = begin + (float)i;
        y[i] = 0;
    }
    dvt_context_point_input(context, 0, x);
    dvt_context_point_output(context, 0, y);
    CHECK(dvt_context_run(context, 0, 0) == DOVETAIL_OK);
    for (int i = 0; i < N; i++) {
        CHECK(y[i] == -3 * (2 * x[i] + 1) + 5);
    }
}

static void end_context(dvt_context *context, struct chain *chain)
{
    dvt_context_close(context, &chain->plan);
    dvt_context_free(context);
    dvt_plan_release(&chain->plan);
    dvt_pool_destroy(chain->plan.pool);
}

static _Alignas(64) char one_arena[64 + N * sizeof(float)], other_arena[64 + N * sizeof(float)];

/* A chain on one thread, and a context in which it runs. */
static void start(dvt_context *context, struct chain *chain)
{
    dvt_fault fault;
    make_chain(chain, dvt_pool_create(1, 0), 0);
    CHECK(make_context(context, chain, one_arena, &fault) == 0);
}

static void runs(void)
{
    struct chain chain;
    dvt_context context;
    dvt_fault fault;
    dvt_pool *pool = dvt_pool_create(2, 0);
    for (int with_queue = 0; with_queue < 2; with_queue++) {
        make_chain(&chain, pool, with_queue);
        CHECK(make_context(&context, &chain, one_arena, &fault) == 0 && fault.what == DVT_FAULT_NONE);
        CHECK(queues_alive == with_queue);
        check_run(&context, 0);
        check_run(&context, 100);
        dvt_context_close(&context, &chain.plan);
        dvt_context_close(&context, &chain.plan);
        dvt_context_free(&context);
        CHECK(queues_alive == 0 && chain.first.runs_made == 1 && chain.first.runs_ended == 1 && chain.second.runs_ended == 1);
        dvt_plan_release(&chain.plan);
    }
    dvt_pool_destroy(pool);
}

static void the_shared_arena_may_be_another(void)
{
    struct chain chain;
    dvt_context context;
    start(&context, &chain);
    check_run(&context, 1);
    memset(one_arena, 0x7f, sizeof one_arena);
    dvt_context_attach(&context, &chain.plan, other_arena);
    check_run(&context, 2);
    for (size_t i = 0; i < sizeof one_arena; i++) {
        CHECK(one_arena[i] == 0x7f);
    }
    end_context(&context, &chain);
}

static void what_cannot_be_made_leaves_nothing(void)
{
    struct chain chain;
    dvt_context context;
    dvt_fault fault;
    dvt_pool *pool = dvt_pool_create(1, 0);
    make_chain(&chain, pool, 1);
    chain.second.refuses_run = 1;
    CHECK(make_context(&context, &chain, one_arena, &fault) == DOVETAIL_OUT_OF_MEMORY);
    CHECK(fault.what == DVT_FAULT_RUN && fault.index == 2 && fault.code == DOVETAIL_OUT_OF_MEMORY);
    CHECK(chain.first.runs_made == 1 && chain.first.runs_ended == 1 && chain.second.runs_ended == 0 && queues_alive == 0);
    queue_refused = 1;
    CHECK(make_context(&context, &chain, one_arena, &fault) == DOVETAIL_FAILED);
    CHECK(fault.what == DVT_FAULT_QUEUE && fault.index == 0 && queues_alive == 0 && chain.first.runs_made == 1);
    queue_refused = 0;
    dvt_plan_release(&chain.plan);
    dvt_pool_destroy(pool);
}

static void a_step_that_fails_says_so(void)
{
    struct chain chain;
    dvt_context context;
    float x[N] = {0}, y[N];
    start(&context, &chain);
    chain.second.fails = 1;
    dvt_context_point_input(&context, 0, x);
    dvt_context_point_output(&context, 0, y);
    CHECK(dvt_context_run(&context, 0, 0) == DOVETAIL_FAILED);
    CHECK(context.failed_step == 1 && strcmp(context.message, "this one fails") == 0);
    chain.second.fails = 0;
    check_run(&context, 3);
    end_context(&context, &chain);
}

static void times_are_taken_when_wanted(void)
{
    struct chain chain;
    dvt_context context;
    start(&context, &chain);
    CHECK(dvt_context_profile(&context, 1) == 0 && dvt_context_profile(&context, 1) == 0);
    check_run(&context, 0);
    CHECK(0 < context.times[0] && context.times[0] <= context.times[1] && context.times[1] <= context.times[2]);
    CHECK(dvt_context_profile(&context, 0) == 0 && context.times == NULL && context.workers == NULL);
    check_run(&context, 0);
    end_context(&context, &chain);
}

enum { CHUNK_NS = 200000, CHUNKS = 12 };

struct noted_region {
    dvt_worker_times *times;
    dvt_pool *pool;
    _Atomic int items, inner_items;
};

static void count_inside(int64_t begin, int64_t end, int32_t worker UNUSED, void *arg)
{
    atomic_fetch_add(&((struct noted_region *)arg)->inner_items, (int)(end - begin));
}

/* Takes a known time, and opens a region inside: its time is that of the chunk. */
static void take_a_while(int64_t begin, int64_t end, int32_t worker UNUSED, void *arg)
{
    struct noted_region *region = arg;
    int64_t until = dvt_now_ns() + CHUNK_NS;
    CHECK(dvt_worker_times_run(region->times, 0, region->pool, 3, 5, 1, count_inside, region, NULL, NULL, NULL) == 0);
    while (dvt_now_ns() < until) {
    }
    atomic_fetch_add(&region->items, (int)(end - begin));
}

static void workers_tell_when_they_worked(void)
{
    struct noted_region region = {.times = dvt_worker_times_create(2, 3), .pool = dvt_pool_create(3, 50)};
    CHECK(region.times && region.times->room == 24);
    for (int runs = 1; runs <= 10; runs++) {    /* there is room for eight regions */
        int64_t before = dvt_now_ns();
        CHECK(dvt_worker_times_run(region.times, 1, region.pool, 3, 2 * CHUNKS, 2, take_a_while, &region, NULL, NULL, NULL) == 0);
        int64_t after = dvt_now_ns(), busy = 0;
        CHECK(region.items == 2 * CHUNKS * runs && region.inner_items == 5 * CHUNKS * runs);
        CHECK(region.times->n_works == (runs < 8 ? 3 * runs : 24));
        for (int32_t worker = 0; runs <= 8 && worker < 3; worker++) {
            const dvt_work *work = &region.times->works[3 * (runs - 1) + worker];
            CHECK(work->step == 1 && work->worker == worker && 0 <= work->busy && work->busy <= work->end - work->begin);
            CHECK(work->begin == 0 || (before <= work->begin && work->end <= after));
            busy += work->busy;
        }
        CHECK(runs > 8 || (busy >= (int64_t)CHUNKS * CHUNK_NS && busy <= 3 * (after - before)));
    }
    region.times->n_works = 0;
    CHECK(dvt_worker_times_run(region.times, 0, region.pool, 3, 2, 2, count_inside, &region, NULL, NULL, NULL) == 0);
    CHECK(dvt_worker_times_run(region.times, 0, region.pool, 1, 9, 1, count_inside, &region, NULL, NULL, NULL) == 0);
    CHECK(dvt_worker_times_run(region.times, 0, region.pool, 3, 0, 1, count_inside, &region, NULL, NULL, NULL) == 0);
    CHECK(region.times->n_works == 0 && region.inner_items == 50 * CHUNKS + 11);
    free(region.times);
    dvt_pool_destroy(region.pool);
}

/* The queue notes what its step did, and a span of a call that is not this run's. */
static int execute_noted(void *state, const dovetail_call *call)
{
    int64_t begin = dvt_now_ns();
    while (dvt_now_ns() < begin + 2000000) {
    }
    if (told.is_told) {
        told.calls[0] = call;
        told.calls[1] = (const dovetail_call *)&told;
        told.times[0][0] = told.times[1][0] = begin;
        told.times[0][1] = told.times[1][1] = dvt_now_ns();
        told.n_spans = 2;
    }
    return execute(state, call);
}

static void check_spans(dvt_context *context, int expected)
{
    check_run(context, 0);
    CHECK(context->spans->n_spans == expected && !told.is_told);
    if (expected) {
        const dvt_span *span = &context->spans->spans[0];
        CHECK(span->step == 0 && span->queue == 0 && strcmp(span->name, "kernel") == 0);
        /* What is known of the clocks is good to as long as it took to read them. */
        int64_t off = llabs(span->begin - told.times[0][0]) + llabs(span->end - told.times[0][1]);
        CHECK(off <= 4 * (context->spans->begun[0].spread + 1000000));
    }
}

static void devices_tell_when_they_worked(void)
{
    struct chain chain;
    dvt_context context;
    dvt_fault fault;
    make_chain(&chain, dvt_pool_create(1, 0), 1);
    CHECK(make_context(&context, &chain, one_arena, &fault) == 0);
    chain.workloads[0].execute = chain.plan.run_steps[0].execute = execute_noted;
    CHECK(dvt_context_profile(&context, 1) == 0);
    check_spans(&context, 0);   /* a table that has none of it */
    chain.queues.queue_profile = queue_profile;
    chain.queues.queue_span = queue_span;
    chain.queues.queue_clock = queue_clock;
    for (told.rate = 1; told.rate <= 3; told.rate++) {
        told.epoch = dvt_now_ns() - 1000;
        check_spans(&context, 1);
    }
    told.refuses = 1;
    check_run(&context, 0);
    CHECK(context.spans->n_spans == 0);
    told.refuses = told.is_told = 0;
    chain.queues.size = offsetof(dovetail_queues, queue_profile);   /* an older table, behind which is anything */
    check_spans(&context, 0);
    CHECK(dvt_context_profile(&context, 0) == 0 && context.spans == NULL);
    end_context(&context, &chain);
}

RUN_TESTS(
    TEST(runs),
    TEST(the_shared_arena_may_be_another),
    TEST(what_cannot_be_made_leaves_nothing),
    TEST(a_step_that_fails_says_so),
    TEST(times_are_taken_when_wanted),
    TEST(workers_tell_when_they_worked),
    TEST(devices_tell_when_they_worked))
