/* A workload that drives everything the host table lends. One float32 input and output of equal
 * size. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "abi.h"

enum {
    PW_SUM,                     /* y = x + the sum of x, which is built of sums per chunk in the order of the chunks */
    PW_NESTED,                  /* the same result as y = 2 x + 1, each chunk cut again */
    PW_FAIL,                    /* chunk `chunk` fails */
    PW_FAIL_ALL,                /* every chunk fails with its own message */
    PW_POLL,                    /* works for `work_us`, looking at is_cancelled; then y = x */
    PW_POLL_CHUNKS,             /* the same, in the bodies of a parallel range */
    PW_DEAF,                    /* works for `work_us` and looks at nothing; then y = x */
    PW_WORKERS,                 /* checks that each worker has its part of the workspace to itself; then y = x */
    PW_MARK,                    /* marks "begin" and "end" for the profile; y = x */
    PW_IGNORES_FAILURE,         /* chunk `chunk` fails, and execute returns 0 all the same */
    PW_ALONE                    /* works for `work_us`; fails if another workload of the same `chunk` is at work too; y = x */
};
enum { PW_CANARY = 0x5a };
#define PW_WORKER_BYTES 256

typedef struct {
    int64_t mode, grain, chunk, work_us;
} pw_state;

typedef struct {
    const dovetail_call *call;
    const pw_state *state;
    const float *x;
    float *y;
    double *sums;
    float total;
} pw_job;

static int64_t pw_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int64_t pw_elements(const dovetail_tensor *tensor)
{
    int64_t n = 1;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        n *= tensor->shape[i];
    }
    return n;
}

static int64_t pw_chunks(const pw_state *state, int64_t n)
{
    return (n + state->grain - 1) / state->grain;
}

/* Works for some time; returns non-zero if it was asked to stop. */
static int pw_work(const dovetail_call *call, int64_t us, int polls)
{
    int64_t end = pw_now_us() + us;
    while (pw_now_us() < end) {
        if (polls && call->host->is_cancelled(call)) {
            return 1;
        }
    }
    return 0;
}

static void pw_sum_chunk(int64_t begin, int64_t end, int32_t worker, void *arg)
{
    pw_job *job = arg;
    double sum = 0;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        sum += job->x[i];
    }
    job->sums[begin / job->state->grain] = sum;
}

static void pw_add_chunk(int64_t begin, int64_t end, int32_t worker, void *arg)
{
    pw_job *job = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        job->y[i] = job->x[i] + job->total;
    }
}

static void pw_inner_chunk(int64_t begin, int64_t end, int32_t worker, void *arg)
{
    pw_job *job = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        job->y[i] = 2 * job->x[i] + 1;
    }
}

typedef struct {
    pw_job *job;
    int64_t begin;
} pw_inner;

static void pw_shifted_chunk(int64_t begin, int64_t end, int32_t worker, void *arg)
{
    pw_inner *inner = arg;
    pw_inner_chunk(inner->begin + begin, inner->begin + end, worker, inner->job);
}

static void pw_outer_chunk(int64_t begin, int64_t end, int32_t worker, void *arg)
{
    pw_job *job = arg;
    pw_inner inner = {job, begin};
    (void)worker;
    job->call->host->parallel_for(job->call, end - begin, 3, pw_shifted_chunk, &inner);
}

static void pw_fail_chunk(int64_t begin, int64_t end, int32_t worker, void *arg)
{
    pw_job *job = arg;
    char text[64];
    int64_t chunk = begin / job->state->grain;
    (void)end;
    (void)worker;
    pw_work(job->call, job->state->work_us, 0);
    if (job->state->mode == PW_FAIL_ALL || chunk == job->state->chunk) {
        snprintf(text, sizeof text, "chunk %lld failed", (long long)chunk);
        job->call->host->fail(job->call, 42, text);
    }
}

static void pw_poll_chunk(int64_t begin, int64_t end, int32_t worker, void *arg)
{
    pw_job *job = arg;
    if (!pw_work(job->call, job->state->work_us, 1)) {
        pw_add_chunk(begin, end, worker, job);
    }
}

static void pw_worker_chunk(int64_t begin, int64_t end, int32_t worker, void *arg)
{
    pw_job *job = arg;
    const dovetail_call *call = job->call;
    if (worker < 0 || worker >= call->workers) {
        call->host->fail(call, 43, "a worker's number is out of range");
        return;
    }
    char *part = (char *)call->worker_workspace + (size_t)worker * call->worker_stride;
    if (__atomic_exchange_n((int *)part, 1, __ATOMIC_RELAXED)) {
        call->host->fail(call, 44, "two threads have the same part of the workspace");
        return;
    }
    for (int i = 4; i < PW_WORKER_BYTES; i++) {
        part[i] = (char)(begin + worker + i);
    }
    pw_work(call, job->state->work_us, 0);
    for (int i = 4; i < PW_WORKER_BYTES; i++) {
        if (part[i] != (char)(begin + worker + i)) {
            call->host->fail(call, 45, "somebody wrote into a worker's part of the workspace");
        }
    }
    __atomic_store_n((int *)part, 0, __ATOMIC_RELAXED);
    pw_add_chunk(begin, end, worker, job);
}

static int pw_workspace(void *arg, const dovetail_tensor *inputs, const dovetail_tensor *outputs, int32_t workers, size_t *shared,
                        size_t *per_worker)
{
    const pw_state *state = arg;
    (void)outputs;
    (void)workers;
    *shared = state->mode == PW_SUM ? (size_t)pw_chunks(state, pw_elements(inputs)) * sizeof(double) : 0;
    *per_worker = state->mode == PW_WORKERS ? PW_WORKER_BYTES : 0;
    return DOVETAIL_OK;
}

static int pw_sum(pw_job *job, int64_t n)
{
    const dovetail_call *call = job->call;
    job->sums = call->workspace;
    int status = call->host->parallel_for(call, n, job->state->grain, pw_sum_chunk, job);
    if (status != DOVETAIL_OK) {
        return status;
    }
    double total = 0;
    for (int64_t i = 0; i < pw_chunks(job->state, n); i++) {
        total += job->sums[i];
    }
    job->total = (float)total;
    return call->host->parallel_for(call, n, job->state->grain, pw_add_chunk, job);
}

static int pw_alone(const pw_state *state, const dovetail_call *call)
{
    static int inside[16];
    int *mine = &inside[state->chunk % 16];
    int others = __atomic_fetch_add(mine, 1, __ATOMIC_SEQ_CST);
    pw_work(call, state->work_us, 0);
    __atomic_fetch_sub(mine, 1, __ATOMIC_SEQ_CST);
    return others ? call->host->fail(call, 46, "two runs at once") : DOVETAIL_OK;
}

static int pw_execute(void *arg, const dovetail_call *call)
{
    const pw_state *state = arg;
    const dovetail_host *host = call->host;
    pw_job job = {.call = call, .state = state};
    job.x = (const float *)((const char *)call->inputs[0].data + call->inputs[0].byte_offset);
    job.y = (float *)((char *)call->outputs[0].data + call->outputs[0].byte_offset);
    int64_t n = pw_elements(call->inputs);
    switch (state->mode) {
    case PW_SUM:
        return pw_sum(&job, n);
    case PW_NESTED:
        return host->parallel_for(call, n, state->grain, pw_outer_chunk, &job);
    case PW_FAIL:
    case PW_FAIL_ALL:
        return host->parallel_for(call, n, state->grain, pw_fail_chunk, &job);
    case PW_IGNORES_FAILURE:
        host->parallel_for(call, n, state->grain, pw_fail_chunk, &job);
        return DOVETAIL_OK;
    case PW_POLL_CHUNKS:
        return host->parallel_for(call, n, state->grain, pw_poll_chunk, &job);
    case PW_WORKERS:
        for (int32_t i = 0; i < call->workers; i++) {
            *(int *)((char *)call->worker_workspace + (size_t)i * call->worker_stride) = 0;
        }
        return host->parallel_for(call, n, state->grain, pw_worker_chunk, &job);
    case PW_MARK:
        host->profile_mark(call, "begin");
        pw_add_chunk(0, n, 0, &job);
        host->profile_mark(call, "end");
        return DOVETAIL_OK;
    case PW_ALONE:
        pw_add_chunk(0, n, 0, &job);
        return pw_alone(state, call);
    default:
        if (pw_work(call, state->work_us, state->mode == PW_POLL)) {
            return DOVETAIL_CANCELLED;
        }
        pw_add_chunk(0, n, 0, &job);
        return DOVETAIL_OK;
    }
}
