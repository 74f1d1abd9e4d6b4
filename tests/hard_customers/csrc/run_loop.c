/* The run loop, its pool and its watchdog with both hard customers, without Python: for
 * ThreadSanitizer. */
#include <math.h>
#include <pthread.h>

#include "check.h"
#include "executor.h"
#include "parallel_workload.h"
#include "test_device.h"

enum { N = 4096, CALLERS = 8, MAX_STEPS = 6 };

typedef struct {
    dvt_step steps[MAX_STEPS];
    int32_t n_steps;
    const dovetail_queues *tables[1];
    int n_queues;
    int tensors[MAX_STEPS][3];          /* two inputs, one output; -1: none */
    pw_state states[MAX_STEPS];
    td_workload *device_steps[MAX_STEPS];
} plan;

/* Tensors 0 input, 1..5 host, 6 output, 7 and 8 on the device. */
enum { INPUT, OUTPUT = 6, DEVICE_A, DEVICE_B, TENSORS };

typedef struct {
    dvt_context c;
    dovetail_call calls[MAX_STEPS];
    dovetail_tensor slots[MAX_STEPS][3];
    float *host[OUTPUT + 1];
    uint64_t device_memory;
    void *queues[1];
    char pending[1];
    void *workspace, *worker_workspace;
    int polls;
} context;

static td_device *device;
static dovetail_queues queue_table;
static int64_t shape[1] = {N}, strides[1] = {1};

static int count_poll(dvt_context *c)
{
    ((context *)c->owner)->polls++;
    return 0;
}

static void open_context(const plan *p, dvt_pool *pool, int threads, context *x)
{
    memset(x, 0, sizeof *x);
    x->c = (dvt_context){.steps = p->steps, .calls = x->calls, .n_steps = p->n_steps, .n_queues = p->n_queues,
                         .queue_tables = p->tables, .queues = x->queues, .pending = x->pending, .pool = pool, .threads = threads,
                         .owner = x, .poll = count_poll};
    for (int i = 0; i <= OUTPUT; i++) {
        x->host[i] = aligned_alloc(64, N * sizeof(float));
    }
    x->workspace = malloc(N * sizeof(double));
    x->worker_workspace = malloc((size_t)threads * PW_WORKER_BYTES);
    if (p->n_queues) {
        CHECK(p->tables[0]->queue_create(p->tables[0]->state, 0, &x->queues[0]) == DOVETAIL_OK);
        x->device_memory = td_allocate(device, 2 * N * sizeof(float));
        CHECK(x->device_memory);
    }
    for (int32_t i = 0; i < p->n_steps; i++) {
        dovetail_call *call = &x->calls[i];
        *call = (dovetail_call){.size = sizeof *call, .host = &dvt_host, .context = &x->c, .inputs = x->slots[i],
                                .n_inputs = p->tensors[i][1] < 0 ? 1 : 2, .outputs = x->slots[i] + 2, .n_outputs = 1,
                                .workspace = x->workspace, .worker_workspace = x->worker_workspace,
                                .worker_stride = PW_WORKER_BYTES, .workers = threads,
                                .queue = p->steps[i].queue >= 0 ? x->queues[0] : NULL};
        for (int k = 0; k < 3; k++) {
            int tensor = p->tensors[i][k];
            x->slots[i][k] = (dovetail_tensor){.device = {1, 0}, .ndim = 1, .dtype = {2, 32, 1}, .shape = shape, .strides = strides};
            if (tensor >= DEVICE_A) {
                x->slots[i][k].data = (void *)(uintptr_t)x->device_memory;
                x->slots[i][k].byte_offset = (uint64_t)(tensor - DEVICE_A) * N * sizeof(float);
            } else if (tensor >= 0) {
                x->slots[i][k].data = x->host[tensor];
            }
        }
        if (p->device_steps[i]) {
            dovetail_workload table = {.size = sizeof table};
            td_workload_describe(p->device_steps[i], &table);
            CHECK(table.create_run(p->device_steps[i], call->queue, &call->run_data) == DOVETAIL_OK);
        }
    }
}

static void close_context(const plan *p, context *x)
{
    for (int32_t i = 0; i < p->n_steps; i++) {
        if (p->device_steps[i]) {
            dovetail_workload table = {.size = sizeof table};
            td_workload_describe(p->device_steps[i], &table);
            table.release_run(p->device_steps[i], x->calls[i].run_data);
        }
    }
    if (p->n_queues) {
        p->tables[0]->queue_destroy(x->queues[0]);
        td_free(device, x->device_memory);
    }
    for (int i = 0; i <= OUTPUT; i++) {
        free(x->host[i]);
    }
    free(x->workspace);
    free(x->worker_workspace);
}

static void host_step(plan *p, int mode, int from, int to)
{
    int i = p->n_steps++;
    size_t shared, per_worker;
    dovetail_tensor tensor = {.ndim = 1, .shape = shape, .strides = strides, .dtype = {2, 32, 1}};
    p->states[i] = (pw_state){.mode = mode, .grain = 64, .chunk = 7, .work_us = mode == PW_SUM ? 0 : 20};
    CHECK(pw_workspace(&p->states[i], &tensor, &tensor, 1, &shared, &per_worker) == DOVETAIL_OK);
    CHECK(shared <= N * sizeof(double) && per_worker <= PW_WORKER_BYTES);
    p->steps[i] = (dvt_step){.kind = DVT_STEP_EXECUTE, .queue = -1, .state = &p->states[i], .execute = pw_execute};
    p->tensors[i][0] = from;
    p->tensors[i][1] = -1;
    p->tensors[i][2] = to;
}

static void device_step(plan *p, int operation, int a, int b, int to)
{
    int i = p->n_steps++;
    p->device_steps[i] = td_workload_create(device, operation, 0, "step", NULL, 0, b < 0 ? 1 : 2);
    p->steps[i] = (dvt_step){.kind = DVT_STEP_EXECUTE, .queue = 0, .state = p->device_steps[i], .execute = td_execute};
    p->tensors[i][0] = a;
    p->tensors[i][1] = b;
    p->tensors[i][2] = to;
    p->tables[0] = &queue_table;
    p->n_queues = 1;
}

static void wait_step(plan *p)
{
    p->steps[p->n_steps++] = (dvt_step){.kind = DVT_STEP_WAIT, .queue = 0};
}

static void free_plan(plan *p)
{
    for (int32_t i = 0; i < p->n_steps; i++) {
        if (p->device_steps[i]) {
            td_release(p->device_steps[i]);
        }
    }
}

typedef struct {
    const plan *plan;
    dvt_pool *pool;
    int threads, runs, seed, expected;
    void (*check)(const context *);
} caller;

static void *call_often(void *arg)
{
    caller *job = arg;
    context x;
    open_context(job->plan, job->pool, job->threads, &x);
    for (int run = 0; run < job->runs; run++) {
        for (int i = 0; i < N; i++) {
            x.host[INPUT][i] = (float)((i * 7 + job->seed + run) % 13 - 6);
        }
        memset(x.host[OUTPUT], 0xff, N * sizeof(float));
        int status = dvt_context_run(&x.c, dvt_now_ns() + INT64_C(100000000000), 0);
        CHECK(status == job->expected);
        CHECK(!x.c.stuck);
        if (job->check) {
            job->check(&x);
        }
    }
    close_context(job->plan, &x);
    return NULL;
}

static void run_from_callers(const plan *p, int threads, int runs, int expected, void (*check)(const context *))
{
    dvt_pool *pool = dvt_pool_create(threads, 20);
    pthread_t handles[CALLERS];
    caller jobs[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        jobs[i] = (caller){p, pool, threads, runs, i, expected, check};
        CHECK(!pthread_create(&handles[i], NULL, call_often, &jobs[i]));
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(handles[i], NULL);
    }
    dvt_pool_destroy(pool);
}

/* nested: a = 2x + 1; sum: b = a + sum(a); workers: c = b */
static void check_host(const context *x)
{
    double total = 0;
    for (int i = 0; i < N; i++) {
        total += 2 * x->host[INPUT][i] + 1;
    }
    for (int i = 0; i < N; i++) {
        CHECK(x->host[OUTPUT][i] == 2 * x->host[INPUT][i] + 1 + (float)total);
    }
}

static void test_host_steps(void)
{
    plan p = {0};
    host_step(&p, PW_NESTED, INPUT, 1);
    host_step(&p, PW_SUM, 1, 2);
    host_step(&p, PW_WORKERS, 2, OUTPUT);
    for (int threads = 1; threads <= 4; threads++) {
        run_from_callers(&p, threads, 10, DOVETAIL_OK, check_host);
    }
}

static void check_failure(const context *x)
{
    CHECK(x->c.failed_step == 1 && x->c.code == 42 && strncmp(x->c.message, "chunk ", 6) == 0);
}

static void test_failing_chunks(void)
{
    static const int modes[] = {PW_FAIL, PW_FAIL_ALL, PW_IGNORES_FAILURE};
    for (int i = 0; i < 3; i++) {
        plan p = {0};
        host_step(&p, PW_NESTED, INPUT, 1);
        host_step(&p, modes[i], 1, 2);
        if (modes[i] != PW_IGNORES_FAILURE) {
            host_step(&p, PW_SUM, 2, OUTPUT);
        }
        run_from_callers(&p, 3, 10, 42, check_failure);
    }
}

/* relu(x) + nested(x), the first half of it on the device */
static void check_device(const context *x)
{
    for (int i = 0; i < N; i++) {
        float v = x->host[INPUT][i];
        CHECK(x->host[OUTPUT][i] == (v > 0 ? v : 0) * 2 + 1);
    }
}

static void test_device_steps(void)
{
    plan p = {0};
    device_step(&p, TD_COPY_IN, INPUT, -1, DEVICE_A);
    device_step(&p, TD_RELU, DEVICE_A, -1, DEVICE_B);
    device_step(&p, TD_COPY_OUT, DEVICE_B, -1, 1);
    wait_step(&p);
    host_step(&p, PW_NESTED, 1, OUTPUT);
    run_from_callers(&p, 2, 10, DOVETAIL_OK, check_device);
    free_plan(&p);
}

static void test_device_failure_is_seen_by_the_wait(void)
{
    plan p = {0};
    device_step(&p, TD_COPY_IN, INPUT, -1, DEVICE_A);
    device_step(&p, TD_RELU, DEVICE_A, -1, DEVICE_B);
    host_step(&p, PW_NESTED, INPUT, 1);
    wait_step(&p);
    td_settings_of(device)->fail_at = 1;
    run_from_callers(&p, 2, 10, 7, NULL);
    td_settings_of(device)->fail_at = -1;
    free_plan(&p);
}

/* The deadline passes in the only wait of a queue that hangs until it is aborted, and that calls an
 * aborted queue drained. */
static void test_deadline_while_waiting(void)
{
    plan p = {0};
    context x;
    dvt_pool *pool = dvt_pool_create(1, 0);
    device_step(&p, TD_COPY_IN, INPUT, -1, DEVICE_A);
    device_step(&p, TD_COPY_OUT, DEVICE_A, -1, OUTPUT);
    wait_step(&p);
    open_context(&p, pool, 1, &x);
    memset(x.host[INPUT], 0, N * sizeof(float));
    static const int64_t statuses[] = {DOVETAIL_OK, DOVETAIL_FAILED, DOVETAIL_CANCELLED, 9};
    for (int i = 0; i < 4; i++) {
        td_settings_of(device)->hang_at = 1;
        td_settings_of(device)->abort_status = statuses[i];
        CHECK(dvt_context_run(&x.c, dvt_now_ns() + 30000000, 0) == DOVETAIL_CANCELLED);
        CHECK(x.c.watch.stop & DVT_TIMED_OUT && !x.c.stuck);
        td_settings_of(device)->hang_at = -1;
        CHECK(dvt_context_run(&x.c, dvt_now_ns() + INT64_C(10000000000), 0) == DOVETAIL_OK);
        CHECK(x.host[OUTPUT][0] == 0);
    }
    td_settings_of(device)->abort_status = DOVETAIL_OK;
    close_context(&p, &x);
    dvt_pool_destroy(pool);
    free_plan(&p);
}

static void *cancel_later(void *arg)
{
    sleep_us(20000);
    dvt_context_cancel(arg);
    return NULL;
}

static void test_cancel_from_another_thread(void)
{
    static const int modes[] = {PW_POLL, PW_POLL_CHUNKS};
    for (int i = 0; i < 2; i++) {
        plan p = {0};
        context x;
        pthread_t other;
        dvt_pool *pool = dvt_pool_create(3, 20);
        host_step(&p, modes[i], INPUT, OUTPUT);
        p.states[0].work_us = 10000000;
        open_context(&p, pool, 3, &x);
        memset(x.host[INPUT], 0, N * sizeof(float));
        CHECK(!pthread_create(&other, NULL, cancel_later, &x.c));
        int64_t begin = dvt_now_ns();
        CHECK(dvt_context_run(&x.c, 0, 0) == DOVETAIL_CANCELLED);
        CHECK(dvt_now_ns() - begin < INT64_C(2000000000));
        pthread_join(other, NULL);
        close_context(&p, &x);
        dvt_pool_destroy(pool);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"host_steps", test_host_steps, 0},
        {"failing_chunks", test_failing_chunks, 0},
        {"device_steps", test_device_steps, 0},
        {"device_failure_is_seen_by_the_wait", test_device_failure_is_seen_by_the_wait, 0},
        {"deadline_while_waiting", test_deadline_while_waiting, 0},
        {"cancel_from_another_thread", test_cancel_from_another_thread, 0},
    };
    device = td_open(1);
    td_settings_of(device)->delay_us = 30;
    td_queues(device, &queue_table);
    int failed = run_tests(tests, sizeof tests / sizeof *tests, argc, argv);
    td_close(device);
    if (td_violation(device)[0]) {
        fprintf(stderr, "violation: %s\n", td_violation(device));
        return 1;
    }
    return failed;
}
