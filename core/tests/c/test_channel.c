#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../../csrc/channel.h"
#include "../../csrc/executor.h"
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* A worker is a thread here; its process is this one, and never ends. */

enum { N_INPUTS = 3, LARGEST = 200 << 10, PART = 7, SPIN_NS = 50000 };

static dvt_channel channel;
static char shared[N_INPUTS * LARGEST + 64];
static char inputs[N_INPUTS][LARGEST];
static int64_t sums[N_INPUTS];
static size_t offsets[N_INPUTS + 1], sizes[N_INPUTS + 1];
static int64_t worker_spins;
static atomic_int wants_to_end, explained;

static int is_cancelled(const dovetail_call *call UNUSED)
{
    return atomic_load(&wants_to_end);
}

static int no_revival(void *owner UNUSED, const dovetail_call *call UNUSED)
{
    CHECK(!"a process that lives is not revived");
    return DOVETAIL_FAILED;
}

static int explain(void *owner UNUSED, const dovetail_call *call UNUSED, int status)
{
    atomic_fetch_add(&explained, 1);
    return status;
}

static int64_t sum_of(const char *bytes, size_t count)
{
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (int64_t)(i % 251 + 1) * bytes[i];
    }
    return sum;
}

/* Answer each request with a sum for each input; a first byte of -1 is a failure, one of -2 runs
 * until it is stopped. */
static void *work(void *arg UNUSED)
{
    dvt_patience patience = {0, 0};
    int64_t taken_ns;
    for (uint32_t request = 0;;) {
        request = dvt_next_request(&channel, request, worker_spins, &patience, &taken_ns);
        int status = DOVETAIL_OK;
        if (channel.part == DVT_LOOK_AT_SOCKET) {
            dvt_answer_request(&channel, request, taken_ns, DOVETAIL_OK, 0);
            return NULL;
        }
        CHECK(channel.part == PART && channel.deadline == 12345);
        const char first = sizes[0] ? shared[offsets[0]] : 0;
        if (first == -1) {
            status = DOVETAIL_FAILED;
        } else if (first == -2) {
            while (atomic_load(&channel.stopped) != request) {
                sleep_us(100);
            }
            status = DOVETAIL_CANCELLED;
        } else {
            int64_t found[N_INPUTS];
            for (int i = 0; i < N_INPUTS; i++) {
                found[i] = sum_of(shared + offsets[i], sizes[i]);
            }
            memcpy(shared + offsets[N_INPUTS], found, sizeof found);
        }
        dvt_answer_request(&channel, request, taken_ns, status, 0);
    }
}

/* Lay inputs of these sizes out as the host does, and the output behind them. */
static void lay_out(size_t first, size_t second, size_t third)
{
    const size_t given[] = {first, second, third, sizeof sums};
    size_t end = 0;
    for (int i = 0; i <= N_INPUTS; i++) {
        offsets[i] = end;
        sizes[i] = given[i];
        end = (end + given[i] + 63) / 64 * 64;
    }
    CHECK(end <= sizeof shared);
}

static int call_once(dvt_isolated_part *part)
{
    static const dovetail_host host = {.is_cancelled = is_cancelled};
    static dvt_context context;
    dovetail_tensor read[N_INPUTS] = {{.data = inputs[0]}, {.data = inputs[1] - 5, .byte_offset = 5}, {.data = inputs[2]}};
    dovetail_tensor written[1] = {{.data = sums}};
    context.watch.deadline = 12345;
    const dovetail_call call = {.host = &host, .context = &context, .inputs = read, .outputs = written};
    return dvt_isolated_execute(part, &call);
}

static void with_worker(void (*talk)(dvt_isolated_part *part), int64_t spin_ns)
{
    memset(&channel, 0, sizeof channel);
    worker_spins = spin_ns;
    explained = 0;
    dvt_worker_end worker = {
        .channel = &channel, .alive = 1, .generation = 1, .host = getpid(), .spin_ns = spin_ns, .grace_ns = INT64_C(60000000000),
        .pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0)};
    CHECK(worker.pidfd >= 0);
    dvt_isolated_part part = {
        .worker = &worker, .number = PART, .generation = 1, .memory = shared, .offsets = offsets, .bytes = sizes,
        .n_inputs = N_INPUTS, .n_outputs = 1, .revive = no_revival, .explain = explain};
    pthread_t thread;
    lay_out(1, 1, 1);
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
    talk(&part);
    dvt_ask(&worker, DVT_LOOK_AT_SOCKET, 0);
    pthread_join(thread, NULL);
    close(worker.pidfd);
}

static void check_calls(dvt_isolated_part *part)
{
    static const size_t choices[] = {0, 1, 63, 64, 65, 4000, 8191, 8192, 8193, 32768, 100000, LARGEST};
    enum { COUNT = sizeof choices / sizeof *choices };
    unsigned seed = 1;
    for (int turn = 0; turn < 1500; turn++) {
        lay_out(choices[rand_r(&seed) % COUNT], choices[rand_r(&seed) % COUNT], choices[rand_r(&seed) % COUNT]);
        for (int i = 0; i < N_INPUTS; i++) {
            memset(inputs[i], rand_r(&seed) % 100, sizes[i]);
            for (size_t at = 0; at < sizes[i]; at += 97) {
                inputs[i][at] = (char)(rand_r(&seed) % 100);
            }
        }
        if (turn % 50 == 0) {
            sleep_us(500);      /* the worker falls asleep */
        }
        CHECK(call_once(part) == DOVETAIL_OK);
        for (int i = 0; i < N_INPUTS; i++) {
            CHECK(sums[i] == sum_of(inputs[i], sizes[i]));
        }
    }
    CHECK(part->worker->successes == 1500 && explained == 0);
}

static void finds_what_was_written(void)
{
    with_worker(check_calls, SPIN_NS);
}

static void finds_it_where_nobody_spins(void)
{
    with_worker(check_calls, 0);
}

static void check_endings(dvt_isolated_part *part)
{
    for (int turn = 0; turn < 20; turn++) {
        lay_out(turn % 2 ? 100 : LARGEST, 0, 40000);
        inputs[0][0] = -1;
        CHECK(call_once(part) == DOVETAIL_FAILED && explained == turn + 1);
        inputs[0][0] = -2;
        atomic_store(&wants_to_end, 1);
        CHECK(call_once(part) == DOVETAIL_CANCELLED);
        atomic_store(&wants_to_end, 0);
        inputs[0][0] = 3;
        CHECK(call_once(part) == DOVETAIL_OK && sums[0] == sum_of(inputs[0], sizes[0]));
    }
}

static void tells_failures_and_cancelled_runs_apart(void)
{
    signal(SIGINT, SIG_IGN);    /* meant for the worker's process */
    with_worker(check_endings, SPIN_NS);
}

RUN_TESTS(
    TEST(finds_what_was_written),
    TEST(finds_it_where_nobody_spins),
    TEST(tells_failures_and_cancelled_runs_apart))
