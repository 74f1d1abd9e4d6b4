#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "channel.h"

#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "executor.h"

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424   /* on every architecture; headers of Linux before 5.1 lack it */
#endif

/* So often is spinning left out at most before it is tried again. */
#define MAX_LEFT_OUT 15

/* How often a waiting host looks whether the process lives and the run goes on. */
#define TICK_NS INT64_C(1000000)

/* A worker ends a run at the same deadline as the host's watchdog, whose thread may be late. */
#define LATE_NS INT64_C(100000000)

static inline void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

/* Not private to a process: the word lies in shared memory. sleep_ns < 0: without limit. */
static void futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t sleep_ns)
{
    struct timespec time = {sleep_ns / 1000000000, sleep_ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, sleep_ns < 0 ? NULL : &time, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

/* Spin until a word is no longer `seen`; 0 once the time is over. */
static int spin_while(_Atomic uint32_t *word, uint32_t seen, int64_t spin_ns, dvt_patience *patience)
{
    if (spin_ns <= 0 || patience->left_out > 0) {
        patience->left_out -= patience->left_out > 0;
        return atomic_load(word) != seen;
    }
    const int64_t until = dvt_now_ns() + spin_ns;
    do {
        for (int i = 0; i < 16; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != seen) {
                patience->backoff = 0;
                return 1;
            }
            pause_briefly();
        }
    } while (dvt_now_ns() < until);
    patience->backoff = patience->backoff < MAX_LEFT_OUT ? 2 * patience->backoff + 1 : MAX_LEFT_OUT;
    patience->left_out = patience->backoff;
    return 0;
}

/* Whoever sleeps says so first and then looks again; whoever writes looks for sleepers last. Both
 * in one order of all (seq_cst), so that one of the two sees the other. */
static void publish(_Atomic uint32_t *word, uint32_t value, _Atomic uint32_t *sleeps)
{
    atomic_store(word, value);
    if (atomic_load(sleeps)) {
        futex_wake(word, INT_MAX);
    }
}

static void sleep_while(_Atomic uint32_t *word, uint32_t seen, _Atomic uint32_t *sleeps, int64_t sleep_ns)
{
    atomic_store(sleeps, 1);
    if (atomic_load(word) == seen) {
        futex_wait(word, seen, sleep_ns);
    }
    atomic_store(sleeps, 0);
}

uint32_t dvt_ask(dvt_worker_end *worker, int32_t part, int64_t deadline)
{
    dvt_channel *channel = worker->channel;
    const uint32_t number = ++worker->requests;
    channel->part = part;
    channel->deadline = deadline;
    publish(&channel->request, number, &channel->worker_sleeps);
    return number;
}

int dvt_is_answered(dvt_channel *channel, uint32_t request, int64_t sleep_ns)
{
    uint32_t seen = atomic_load(&channel->answer);
    if (seen != request && sleep_ns > 0) {
        sleep_while(&channel->answer, seen, &channel->host_sleeps, sleep_ns);
        seen = atomic_load(&channel->answer);
    }
    return seen == request;
}

int dvt_has_ended(const dvt_worker_end *worker)
{
    struct pollfd one = {.fd = worker->pidfd, .events = POLLIN};
    return poll(&one, 1, 0) > 0;
}

int dvt_worker_try(dvt_worker_end *worker, int64_t sleep_ns)
{
    uint32_t free = 0;
    if (atomic_compare_exchange_strong(&worker->lock, &free, 1)) {
        return 1;
    }
    if (atomic_exchange(&worker->lock, 2) == 0) {
        return 1;
    }
    futex_wait(&worker->lock, 2, sleep_ns);
    return atomic_exchange(&worker->lock, 2) == 0;
}

void dvt_worker_release(dvt_worker_end *worker)
{
    if (atomic_exchange(&worker->lock, 0) == 2) {
        futex_wake(&worker->lock, 1);
    }
}

static void send_signal(const dvt_worker_end *worker, int number)
{
    syscall(SYS_pidfd_send_signal, worker->pidfd, number, NULL, 0);
}

void dvt_worker_kill(dvt_worker_end *worker)
{
    if (worker->pidfd >= 0) {
        send_signal(worker, SIGKILL);
    }
    worker->alive = 0;
}

static int is_cancelled(const dovetail_call *call)
{
    return call->host->is_cancelled(call);
}

static char *bytes_of(const dovetail_tensor *tensor)
{
    return (char *)tensor->data + tensor->byte_offset;
}

/* Wait for the answer while the run goes on and the process lives. */
static int await(dvt_isolated_part *part, uint32_t request, const dovetail_call *call)
{
    dvt_worker_end *worker = part->worker;
    int64_t give_up = 0;
    if (!part->is_long) {
        spin_while(&worker->channel->answer, request - 1, worker->spin_ns, &worker->patience);
    }
    while (!dvt_is_answered(worker->channel, request, TICK_NS)) {
        if (dvt_has_ended(worker)) {
            if (dvt_is_answered(worker->channel, request, 0)) {
                break;          /* it answered, and died then: the next call finds out */
            }
            worker->alive = 0;
            return give_up ? DOVETAIL_CANCELLED
                 : atomic_load(&worker->channel->taken) == request ? DVT_WORKER_DIED : DVT_NEVER_BEGUN;
        }
        if (!give_up && is_cancelled(call)) {
            atomic_store(&worker->channel->stopped, request);
            send_signal(worker, SIGINT);
            give_up = dvt_now_ns() + worker->grace_ns;
        } else if (give_up && dvt_now_ns() > give_up) {
            worker->was_killed = 1;
            dvt_worker_kill(worker);
            return DOVETAIL_CANCELLED;
        }
    }
    part->is_long = worker->channel->busy_ns > worker->spin_ns; /* not by the host's clock, which counts what waking up takes */
    if (give_up) {
        return DOVETAIL_CANCELLED;
    }
    const int status = worker->channel->status;
    return status == DOVETAIL_OK || status == DOVETAIL_CANCELLED || status == DOVETAIL_OUT_OF_MEMORY ? status : DOVETAIL_FAILED;
}

static void send_inputs(dvt_isolated_part *part, const dovetail_call *call)
{
    size_t bytes = 0;
    for (int32_t i = 0; i < part->n_inputs; i++) {
        bytes += part->bytes[i];
    }
    const int stores = dvt_stores_for(&part->crossing, bytes);
    const int64_t begin = bytes < DVT_STREAM_BYTES ? 0 : dvt_now_ns();
    for (int32_t i = 0; i < part->n_inputs; i++) {
        if (part->bytes[i]) {
            dvt_copy_across(part->memory + part->offsets[i], bytes_of(&call->inputs[i]), part->bytes[i], stores);
        }
    }
    if (begin) {
        dvt_took(&part->crossing, stores, dvt_now_ns() - begin);
    }
}

/* Keep when devices worked, as the worker says: a wrong time is a wrong profile at worst. */
static void take_spans(const dvt_channel *channel, const dovetail_call *call)
{
    const dvt_context *context = call->context;
    /* Read once: what was checked must be what counts. */
    const int32_t told = *(const volatile int32_t *)&channel->n_spans, count = told < DVT_CHANNEL_SPANS ? told : DVT_CHANNEL_SPANS;
    for (int32_t i = 0; i < count; i++) {
        dvt_channel_span span = channel->spans[i];
        span.name[DVT_CHANNEL_SPAN_NAME - 1] = '\0';
        dvt_spans_tell(context->spans, (int32_t)(call - context->calls), span.name, span.begin, span.end);
    }
}

static int exchange(dvt_isolated_part *part, const dovetail_call *call)
{
    send_inputs(part, call);
    const dvt_context *context = call->context;
    part->worker->channel->is_profiled = context->spans != NULL;
    const int status = await(part, dvt_ask(part->worker, part->number, context->watch.deadline), call);
    if (status == DOVETAIL_CANCELLED) {
        for (const int64_t until = dvt_now_ns() + LATE_NS; !is_cancelled(call) && dvt_now_ns() < until;) {
            usleep(200);
        }
        return is_cancelled(call) ? DOVETAIL_CANCELLED : DVT_WORKER_LOST;
    }
    if (status != DOVETAIL_OK) {
        return status;
    }
    const size_t *offsets = part->offsets + part->n_inputs, *bytes = part->bytes + part->n_inputs;
    for (int32_t i = 0; i < part->n_outputs; i++) {
        if (bytes[i]) {
            memcpy(bytes_of(&call->outputs[i]), part->memory + offsets[i], bytes[i]);
        }
    }
    if (context->spans) {
        take_spans(part->worker->channel, call);
    }
    part->worker->successes++;
    return DOVETAIL_OK;
}

/* Run the part in a process that has it; the lock is held. */
static int run_once(dvt_isolated_part *part, const dovetail_call *call)
{
    dvt_worker_end *worker = part->worker;
    part->is_explained = 0;
    if (!worker->alive || part->generation != worker->generation || dvt_has_ended(worker)) {
        const int status = part->revive(part->owner, call);
        if (status != DOVETAIL_OK) {
            part->is_explained = 1;
            return status;
        }
    }
    return exchange(part, call);
}

int dvt_isolated_execute(void *state, const dovetail_call *call)
{
    dvt_isolated_part *part = state;
    dvt_worker_end *worker = part->worker;
    if (getpid() != worker->host) {
        return part->explain(part->owner, call, DOVETAIL_FORKED);
    }
    while (!dvt_worker_try(worker, TICK_NS)) {
        if (is_cancelled(call)) {
            return DOVETAIL_CANCELLED;
        }
    }
    int status = run_once(part, call);
    if (status == DVT_NEVER_BEGUN) {    /* nothing was lost; once, so that this ends */
        status = run_once(part, call);
    }
    if (status != DOVETAIL_OK && status != DOVETAIL_CANCELLED && !part->is_explained) {
        status = part->explain(part->owner, call, status == DVT_NEVER_BEGUN ? DVT_WORKER_DIED : status);
    }
    dvt_worker_release(worker);
    return status;
}

uint32_t dvt_next_request(dvt_channel *channel, uint32_t last, int64_t spin_ns, dvt_patience *patience, int64_t *taken_ns)
{
    if (!spin_while(&channel->request, last, spin_ns, patience)) {
        while (atomic_load(&channel->request) == last) {
            sleep_while(&channel->request, last, &channel->worker_sleeps, -1);
        }
    }
    const uint32_t request = atomic_load(&channel->request);
    atomic_store_explicit(&channel->taken, request, memory_order_release);
    *taken_ns = dvt_now_ns();
    return request;
}

void dvt_answer_request(dvt_channel *channel, uint32_t request, int64_t taken_ns, int32_t status, uint32_t text_bytes)
{
    channel->busy_ns = dvt_now_ns() - taken_ns;
    channel->status = status;
    channel->text_bytes = text_bytes;
    publish(&channel->answer, request, &channel->host_sleeps);
}
