#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../../csrc/thread_pool.h"
#include "../../csrc/usable_cores.h"
#include "../../csrc/watchdog.h"
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>

#define MAX_THREADS 16

/* pthread_create is linked with --wrap, so that the system can be made to refuse. */
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static _Atomic int threads_granted = 1000000;
static _Atomic int threads_refused;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *arg)
{
    if (atomic_fetch_sub(&threads_granted, 1) <= 0) {
        threads_refused++;
        return EAGAIN;
    }
    return __real_pthread_create(thread, attributes, start, arg);
}

/* What a body sees of a region. `hits` is a plain array on purpose: that the caller may read it
 * after dvt_pool_run is part of what is tested (ThreadSanitizer reports it otherwise). */
struct record {
    int64_t range;
    int64_t grain;
    int threads;
    int work_us;
    int *hits;
    _Atomic int64_t calls;
    _Atomic int inside;
    _Atomic int held[MAX_THREADS];
    _Atomic int used[MAX_THREADS];
    _Atomic int *stop;
};

static void take_index(struct record *record, int32_t worker)
{
    CHECK(worker >= 0 && worker < record->threads);
    CHECK(atomic_exchange(&record->held[worker], 1) == 0);
    atomic_fetch_add(&record->inside, 1);
    record->used[worker] = 1;
}

static void return_index(struct record *record, int32_t worker)
{
    atomic_fetch_sub(&record->inside, 1);
    CHECK(atomic_exchange(&record->held[worker], 0) == 1);
}

static void mark(int64_t begin, int64_t end, int32_t worker, void *arg)
{
    struct record *record = arg;
    take_index(record, worker);
    CHECK(begin % record->grain == 0);
    CHECK(end == (record->range - begin > record->grain ? begin + record->grain : record->range));
    for (int64_t i = begin; record->hits && i < end; i++) {
        record->hits[i]++;
    }
    if (record->work_us) {
        sleep_us(record->work_us);
    }
    record->calls++;
    return_index(record, worker);
}

static int64_t count_chunks(int64_t range, int64_t grain)
{
    return range <= 0 ? 0 : range / grain + (range % grain != 0);
}

/* One region: each index exactly once, nobody inside afterwards. Returns how many threads took
 * part. */
static int check_region(dvt_pool *pool, int threads, int64_t range, int64_t grain, int work_us)
{
    struct record record = {.range = range, .grain = grain, .threads = threads < 1 ? 1 : threads, .work_us = work_us};
    record.hits = range > 0 && range < 1000000 ? calloc((size_t)range, sizeof *record.hits) : NULL;
    CHECK(dvt_pool_run(pool, threads, range, grain, mark, &record, NULL, NULL, NULL) == 0);
    CHECK(record.inside == 0);
    CHECK(record.calls == count_chunks(range, grain));
    for (int64_t i = 0; record.hits && i < range; i++) {
        CHECK(record.hits[i] == 1);
    }
    free(record.hits);
    int used = 0;
    for (int i = 0; i < MAX_THREADS; i++) {
        used += record.used[i];
    }
    return used;
}

static void check_many_regions(dvt_pool *pool)
{
    static const int64_t ranges[] = {-1, 0, 1, 2, 3, 7, 64, 1000, 4097};
    static const int64_t grains[] = {1, 2, 3, 64, 1000, 5000, INT64_MAX};
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
            for (int threads = 0; threads <= 9; threads++) {
                check_region(pool, threads, ranges[r], grains[g], 0);
            }
        }
    }
}

static void covers_each_index_once(void)
{
    static const int threads[] = {1, 2, 3, 8};
    static const int spins[] = {0, 100};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        for (size_t s = 0; s < sizeof spins / sizeof *spins; s++) {
            dvt_pool *pool = dvt_pool_create(threads[t], spins[s]);
            CHECK(dvt_pool_threads(pool) == threads[t]);
            check_many_regions(pool);
            dvt_pool_destroy(pool);
        }
    }
}

static void covers_huge_ranges(void)
{
    dvt_pool *pool = dvt_pool_create(3, 50);
    check_region(pool, 3, INT64_MAX, INT64_MAX / 7, 0);
    check_region(pool, 3, INT64_MAX, INT64_MAX, 0);
    check_region(pool, 3, INT64_MAX - 1, INT64_C(1) << 62, 0);
    check_region(pool, 3, 999999, 10, 0);
    dvt_pool_destroy(pool);
}

static void mark_grain_of_one(int64_t begin, int64_t end, UNUSED int32_t worker, void *arg)
{
    CHECK(end == begin + 1);
    atomic_fetch_add((_Atomic int *)arg, 1);
}

static void takes_no_grain_as_one(void)
{
    dvt_pool *pool = dvt_pool_create(2, 50);
    _Atomic int calls = 0;
    CHECK(dvt_pool_run(pool, 2, 5, 0, mark_grain_of_one, &calls, NULL, NULL, NULL) == 0);
    CHECK(dvt_pool_run(pool, 2, 5, -3, mark_grain_of_one, &calls, NULL, NULL, NULL) == 0);
    CHECK(calls == 10);
    dvt_pool_destroy(pool);
}

/* Sleeping bodies leave the cores free, so that every thread comes in even on one core. */
static void uses_every_lane(void)
{
    dvt_pool *pool = dvt_pool_create(7, 50);
    int most = 0;
    for (int i = 0; i < 50 && most < 7; i++) {
        int used = check_region(pool, 7, 28, 1, 5000);
        most = used > most ? used : most;
    }
    CHECK(most == 7);
    CHECK(check_region(pool, 3, 28, 1, 100) <= 3);
    dvt_pool_destroy(pool);
}

/* Lanes that keep step: nobody ends before the others, so that nobody helps. */
#define STEPS 9

struct march {
    int threads;
    _Atomic int arrived[STEPS];
};

static void keep_step(int64_t begin, int64_t end, int32_t worker, void *arg)
{
    struct march *march = arg;
    CHECK(begin / STEPS == worker && end == begin + 1);
    _Atomic int *arrived = &march->arrived[begin % STEPS];
    for (atomic_fetch_add(arrived, 1); *arrived < march->threads;) {
        sched_yield();
    }
}

static void gives_each_lane_its_own_segment(void)
{
    dvt_pool *pool = dvt_pool_create(5, 50);
    for (int threads = 1; threads <= 5; threads++) {
        struct march march = {.threads = threads};
        CHECK(dvt_pool_run(pool, threads, threads * STEPS, 1, keep_step, &march, NULL, NULL, NULL) == 0);
        for (int i = 0; i < STEPS; i++) {
            CHECK(march.arrived[i] == threads);
        }
    }
    dvt_pool_destroy(pool);
}

/* Whether a straggler is waited for: the slow chunk is taken by a pool thread, the caller runs out
 * of chunks at once. The chunk lasts until the caller has polled, however busy the machine is. */
struct straggler {
    _Atomic int taken;
    _Atomic int finished;
    _Atomic int polls;
};

static void straggle(UNUSED int64_t begin, UNUSED int64_t end, int32_t worker, void *arg)
{
    struct straggler *straggler = arg;
    if (worker == 0) {
        for (int i = 0; i < 2000 && !straggler->taken; i++) {
            sleep_us(100);
        }
        return;
    }
    atomic_fetch_add(&straggler->taken, 1);
    for (int i = 0; i < 2000 && straggler->polls < 3; i++) {
        sleep_us(5000);
    }
    sleep_us(5000);
    atomic_fetch_add(&straggler->finished, 1);
}

static void poll_straggler(void *arg)
{
    atomic_fetch_add(&((struct straggler *)arg)->polls, 1);
}

static void waits_for_stragglers_and_polls(void)
{
    dvt_pool *pool = dvt_pool_create(2, 0);
    for (int i = 0; i < 10; i++) {
        struct straggler straggler = {.taken = 0};
        CHECK(dvt_pool_run(pool, 2, 2, 1, straggle, &straggler, NULL, poll_straggler, &straggler) == 0);
        CHECK(straggler.taken == 1 && straggler.finished == 1);
        CHECK(straggler.polls >= 3);
    }
    dvt_pool_destroy(pool);
}

struct nest {
    dvt_pool *pool;
    struct record *outer;
    int32_t worker;
    int other_threads;
    _Atomic int64_t calls;
};

static void check_nested_worker(int64_t begin, int64_t end, int32_t worker, void *arg)
{
    struct nest *nest = arg;
    CHECK(end == begin + 1);
    CHECK(worker == (nest->worker < nest->other_threads ? nest->worker : 0));
    nest->calls++;
}

static void never_poll(void *arg)
{
    CHECK(*(int32_t *)arg == 0);
}

static void run_nested(UNUSED int64_t begin, UNUSED int64_t end, int32_t worker, void *arg)
{
    struct nest *outer = arg;
    take_index(outer->outer, worker);
    struct nest inner = {.worker = worker, .other_threads = 4};
    CHECK(dvt_pool_run(outer->pool, 4, 20, 1, check_nested_worker, &inner, NULL, never_poll, &worker) == 0);
    inner.other_threads = 2;
    CHECK(dvt_pool_run(outer->pool, 2, 20, 1, check_nested_worker, &inner, NULL, never_poll, &worker) == 0);
    CHECK(inner.calls == 40);
    sleep_us(200);
    return_index(outer->outer, worker);
}

static void runs_nested_regions_inline_as_the_same_worker(void)
{
    dvt_pool *pool = dvt_pool_create(4, 50);
    int all = 0;
    for (int i = 0; i < 50; i++) {
        struct record record = {.threads = 4};
        struct nest nest = {.pool = pool, .outer = &record};
        CHECK(dvt_pool_run(pool, 4, 16, 1, run_nested, &nest, NULL, NULL, NULL) == 0);
        all |= record.used[1] | record.used[2] | record.used[3];
    }
    CHECK(all);
    dvt_pool_destroy(pool);
}

static void *hammer(void *arg)
{
    for (int i = 0; i < 300; i++) {
        check_region(arg, 4, 1 + i % 37, 1 + i % 3, 0);
        if (i % 10 == 0) {
            check_region(arg, 4, 8, 1, 50);
        }
    }
    return NULL;
}

static void serves_eight_callers_at_once(void)
{
    dvt_pool *pool = dvt_pool_create(4, 50);
    pthread_t callers[8];
    for (int i = 0; i < 8; i++) {
        CHECK(pthread_create(&callers[i], NULL, hammer, pool) == 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(callers[i], NULL);
    }
    dvt_pool_destroy(pool);
}

/* A thread that keeps a pool's region open until it is told to end. */
struct holder {
    dvt_pool *pool;
    pthread_t thread;
    _Atomic int entered;
    _Atomic int release;
};

static void hold(UNUSED int64_t begin, UNUSED int64_t end, UNUSED int32_t worker, void *arg)
{
    struct holder *holder = arg;
    atomic_fetch_add(&holder->entered, 1);
    while (!holder->release) {
        sleep_us(500);
    }
}

static void *hold_region(void *arg)
{
    struct holder *holder = arg;
    CHECK(dvt_pool_run(holder->pool, 2, 2, 1, hold, holder, NULL, NULL, NULL) == 0);
    return NULL;
}

static void start_holding(struct holder *holder, dvt_pool *pool)
{
    holder->pool = pool;
    CHECK(pthread_create(&holder->thread, NULL, hold_region, holder) == 0);
    while (holder->entered < 2) {
        sleep_us(100);
    }
}

static void stop_holding(struct holder *holder)
{
    holder->release = 1;
    pthread_join(holder->thread, NULL);
}

static void runs_inline_as_worker_zero_when_busy(void)
{
    dvt_pool *pool = dvt_pool_create(2, 50);
    struct holder holder = {.entered = 0};
    start_holding(&holder, pool);
    struct record record = {.range = 40, .grain = 1, .threads = 1};   /* threads 1: mark refuses any other worker */
    CHECK(dvt_pool_run(pool, 2, 40, 1, mark, &record, NULL, NULL, NULL) == 0);
    CHECK(record.calls == 40 && holder.release == 0);
    stop_holding(&holder);
    dvt_pool_destroy(pool);
}

static void stop_at_ten(UNUSED int64_t begin, UNUSED int64_t end, UNUSED int32_t worker, void *arg)
{
    struct record *record = arg;
    if (atomic_fetch_add(&record->calls, 1) == 10) {
        atomic_fetch_or(record->stop, DVT_CANCELLED);
    }
}

static void check_stop(int threads)
{
    dvt_pool *pool = dvt_pool_create(4, 50);
    for (int i = 0; i < 200; i++) {
        _Atomic int stop = 0;
        struct record record = {.stop = &stop};
        CHECK(dvt_pool_run(pool, threads, 100000, 1, stop_at_ten, &record, &stop, NULL, NULL) != 0);
        CHECK(record.calls >= 11 && record.calls < 100000);
        int64_t calls = record.calls;
        CHECK(dvt_pool_run(pool, threads, 5, 1, stop_at_ten, &record, &stop, NULL, NULL) != 0);
        CHECK(record.calls == calls);
    }
    dvt_pool_destroy(pool);
}

static void stops_half_way(void)
{
    check_stop(4);
    check_stop(1);
}

static void is_complete_when_stopped_by_the_last_chunk(void)
{
    dvt_pool *pool = dvt_pool_create(4, 50);
    for (int threads = 1; threads <= 4; threads++) {
        _Atomic int stop = 0;
        struct record record = {.stop = &stop};
        CHECK(dvt_pool_run(pool, threads, 11, 1, stop_at_ten, &record, &stop, NULL, NULL) == 0);
        CHECK(record.calls == 11);
    }
    dvt_pool_destroy(pool);
}

static void count_poll(void *arg)
{
    ++*(int *)arg;
}

static void goes_on_when_only_asked_to_poll(void)
{
    dvt_pool *pool = dvt_pool_create(2, 50);
    _Atomic int stop = DVT_POLL;
    int polls = 0;
    struct record record = {.range = 9, .grain = 1, .threads = 2};
    CHECK(dvt_pool_run(pool, 2, 9, 1, mark, &record, &stop, count_poll, &polls) == 0);
    CHECK(record.calls == 9);
    CHECK(dvt_pool_run(pool, 1, 9, 1, mark, &record, &stop, count_poll, &polls) == 0);
    CHECK(record.calls == 18 && polls >= 9);
    dvt_pool_destroy(pool);
}

static void cancel(void *arg)
{
    atomic_fetch_or((_Atomic int *)arg, DVT_CANCELLED);
}

static void can_be_stopped_by_its_poll(void)
{
    dvt_pool *pool = dvt_pool_create(2, 50);
    for (int threads = 1; threads <= 2; threads++) {
        _Atomic int stop = 0;
        struct record record = {.range = 100, .grain = 1, .threads = 2, .work_us = 200};
        CHECK(dvt_pool_run(pool, threads, 100, 1, mark, &record, &stop, cancel, &stop) != 0);
        CHECK(record.calls < 100);
    }
    dvt_pool_destroy(pool);
}

static void *use_pool(void *arg)
{
    for (int i = 0; i < 500; i++) {
        check_region(arg, 3, 12, 1, i % 50 ? 0 : 100);
    }
    return NULL;
}

static void two_pools_work_side_by_side(void)
{
    dvt_pool *one = dvt_pool_create(3, 200), *other = dvt_pool_create(3, 200);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use_pool, one) == 0);
    use_pool(other);
    pthread_join(thread, NULL);
    dvt_pool_destroy(one);
    dvt_pool_destroy(other);
}

static void is_destroyed_in_any_state(void)
{
    for (int i = 0; i < 60; i++) {
        dvt_pool *pool = dvt_pool_create(4, i % 3 == 0 ? 1000000 : i % 3 == 1 ? 300 : 0);
        if (i % 5) {
            check_region(pool, 4, 16, 1, 20);
        }
        sleep_us(i % 4 * 300);
        dvt_pool_destroy(pool);
    }
    dvt_pool_destroy(NULL);
}

static int64_t cpu_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Workers of three pools are told to spin for seconds; the licences leave at most usable-1 of them
 * doing so. */
static void limits_spinners(void)
{
    dvt_pool *pools[3];
    for (int i = 0; i < 3; i++) {
        pools[i] = dvt_pool_create(4, 10000000);
        check_region(pools[i], 4, 64, 1, 300);
    }
    sleep_us(20000);
    int64_t wall = dvt_now_ns(), cpu = cpu_ns();
    sleep_us(200000);
    wall = dvt_now_ns() - wall;
    cpu = cpu_ns() - cpu;
    CHECK(cpu <= wall * (dvt_usable_cores() - 1) + wall / 4);
    for (int i = 0; i < 3; i++) {
        dvt_pool_destroy(pools[i]);
    }
}

static void falls_asleep_after_spinning(void)
{
    dvt_pool *pool = dvt_pool_create(4, 1000);
    check_region(pool, 4, 64, 1, 300);
    sleep_us(50000);
    int64_t cpu = cpu_ns();
    sleep_us(200000);
    CHECK(cpu_ns() - cpu < 20000000);
    dvt_pool_destroy(pool);
}

static void makes_do_with_fewer_threads(void)
{
    dvt_pool *pool = dvt_pool_create(4, 50);
    int refused_before = threads_refused;
    threads_granted = 1;
    check_region(pool, 4, 40, 1, 200);
    check_region(pool, 4, 40, 1, 200);
    CHECK(threads_refused == refused_before + 1);
    threads_granted = 0;
    dvt_pool *bare = dvt_pool_create(4, 50);
    CHECK(check_region(bare, 4, 40, 1, 50) == 1);
    threads_granted = 1000000;
    dvt_pool_destroy(pool);
    dvt_pool_destroy(bare);
}

static void inspect_thread(UNUSED int64_t begin, UNUSED int64_t end, int32_t worker, void *arg)
{
    char name[16], expected[16];
    sigset_t blocked;
    if (worker > 0) {
        snprintf(expected, sizeof expected, "dovetail-w%hd", (short)worker);
        pthread_getname_np(pthread_self(), name, sizeof name);
        CHECK(strcmp(name, expected) == 0);
        pthread_sigmask(SIG_SETMASK, NULL, &blocked);
        CHECK(sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGTERM) && !sigismember(&blocked, SIGSEGV));
        atomic_fetch_add((_Atomic int *)arg, 1);
    }
    sleep_us(1000);
}

static void names_threads_and_blocks_signals(void)
{
    dvt_pool *pool = dvt_pool_create(2, 50);
    _Atomic int inspected = 0;
    for (int i = 0; i < 50 && !inspected; i++) {
        dvt_pool_run(pool, 2, 8, 1, inspect_thread, &inspected, NULL, NULL, NULL);
    }
    CHECK(inspected);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    CHECK(!sigismember(&blocked, SIGINT));
    dvt_pool_destroy(pool);
}

static void use_in_child(void *pool)
{
    int most = 0;
    for (int i = 0; i < 50 && most < 3; i++) {
        int used = check_region(pool, 3, 24, 1, 2000);
        most = used > most ? used : most;
    }
    CHECK(most == 3);
    dvt_pool_destroy(pool);
}

static void survives_fork_when_idle(void)
{
    static const int spins[] = {0, 1000000};
    for (int i = 0; i < 2; i++) {
        dvt_pool *pool = dvt_pool_create(3, spins[i]);
        check_in_child(use_in_child, pool);
        check_region(pool, 3, 24, 1, 100);
        check_in_child(use_in_child, pool);
        check_region(pool, 3, 24, 1, 100);
        dvt_pool_destroy(pool);
    }
}

static void survives_fork_while_another_thread_is_inside(void)
{
    dvt_pool *pool = dvt_pool_create(3, 50);
    struct holder holder = {.entered = 0};
    start_holding(&holder, pool);
    check_in_child(use_in_child, pool);
    stop_holding(&holder);
    check_region(pool, 3, 24, 1, 100);
    dvt_pool_destroy(pool);
}

static void *churn(void *arg)
{
    struct holder *holder = arg;
    while (!holder->release) {
        check_region(holder->pool, 3, 50, 1, 0);
        dvt_pool_destroy(dvt_pool_create(2, 0));
    }
    return NULL;
}

static void survives_fork_at_any_moment(void)
{
    struct holder holder = {.pool = dvt_pool_create(3, 50)};
    CHECK(pthread_create(&holder.thread, NULL, churn, &holder) == 0);
    for (int i = 0; i < 30; i++) {
        sleep_us(i * 37);
        check_in_child(use_in_child, holder.pool);
    }
    stop_holding(&holder);
    dvt_pool_destroy(holder.pool);
}

struct fork_in_poll {
    dvt_pool *pool;
    pid_t child;
    int forked;
};

static void fork_once(void *arg)
{
    struct fork_in_poll *state = arg;
    if (!state->forked) {
        state->forked = 1;
        fflush(stdout);
        state->child = fork();
        CHECK(state->child >= 0);
        if (state->child == 0) {
            alarm(20);
        }
    }
}

/* A signal handler that the caller's poll runs may fork: the child lost the other threads' chunks,
 * and is told so. */
static void tells_a_child_forked_in_the_middle(void)
{
    dvt_pool *pool = dvt_pool_create(3, 50);
    struct record record = {.range = 60, .grain = 1, .threads = 3, .work_us = 300};
    struct fork_in_poll state = {.pool = pool};
    check_region(pool, 3, 24, 1, 100);
    int undone = dvt_pool_run(pool, 3, 60, 1, mark, &record, NULL, fork_once, &state);
    if (state.child == 0) {
        CHECK(undone != 0);
        use_in_child(pool);
        _exit(0);
    }
    CHECK(undone == 0 && record.calls == 60);
    int status;
    CHECK(waitpid(state.child, &status, 0) == state.child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    dvt_pool_destroy(pool);
}

static void count_cores_on_one(UNUSED void *unused)
{
    cpu_set_t set;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    int first = 0;
    while (!CPU_ISSET(first, &set)) {
        first++;
    }
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
    CHECK(dvt_usable_cores() == 1);
}

static void counts_cores_again_after_fork(void)
{
    CHECK(dvt_usable_cores() >= 1 && dvt_usable_cores() <= sysconf(_SC_NPROCESSORS_ONLN));
    check_in_child(count_cores_on_one, NULL);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static int quota_of(const char *root, const char *membership)
{
    char path[512];
    write_file(root, "membership", membership);
    snprintf(path, sizeof path, "%s/membership", root);
    return dvt_quota_cores(path, root);
}

static void make_folder(char *path, size_t size, const char *root, const char *name)
{
    CHECK(snprintf(path, size, "%s/%s", root, name) < (int)size);
    CHECK(mkdir(path, 0700) == 0);
}

static void reads_quotas_of_both_cgroup_versions(void)
{
    char root[] = "/tmp/dovetail-cgroup-XXXXXX", folder[256], command[300];
    CHECK(mkdtemp(root));
    CHECK(dvt_quota_cores("/nonexistent", root) == 0);
    CHECK(quota_of(root, "0::/\n") == 0);
    make_folder(folder, sizeof folder, root, "pod");
    write_file(folder, "cpu.max", "350000 100000\n");
    make_folder(folder, sizeof folder, root, "pod/box");
    write_file(folder, "cpu.max", "max 100000\n");
    CHECK(quota_of(root, "0::/pod/box\n") == 3);
    CHECK(quota_of(root, "0::/pod/box/gone\n") == 3);
    CHECK(quota_of(root, "0::/\n") == 0);
    write_file(folder, "cpu.max", "50000 100000\n");
    CHECK(quota_of(root, "0::/pod/box\n") == 1);

    make_folder(folder, sizeof folder, root, "cpu");
    write_file(folder, "cpu.cfs_quota_us", "200000\n");
    write_file(folder, "cpu.cfs_period_us", "100000\n");
    CHECK(quota_of(root, "4:cpu,cpuacct:/not/mounted\n0::/\n") == 2);
    CHECK(quota_of(root, "4:cpuset:/\n") == 0);
    CHECK(quota_of(root, "4:cpu:/\n0::/pod/box\n") == 1);
    write_file(folder, "cpu.cfs_quota_us", "-1\n");
    CHECK(quota_of(root, "4:cpu:/\n") == 0);
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK(system(command) == 0);
}

RUN_TESTS(
    TEST(covers_each_index_once),
    TEST(covers_huge_ranges),
    TEST(takes_no_grain_as_one),
    TEST(uses_every_lane),
    TEST(gives_each_lane_its_own_segment),
    TEST(waits_for_stragglers_and_polls),
    TEST(runs_nested_regions_inline_as_the_same_worker),
    TEST(serves_eight_callers_at_once),
    TEST(runs_inline_as_worker_zero_when_busy),
    TEST(stops_half_way),
    TEST(is_complete_when_stopped_by_the_last_chunk),
    TEST(goes_on_when_only_asked_to_poll),
    TEST(can_be_stopped_by_its_poll),
    TEST(two_pools_work_side_by_side),
    TEST(is_destroyed_in_any_state),
    TEST(limits_spinners),
    TEST(falls_asleep_after_spinning),
    TEST(makes_do_with_fewer_threads),
    TEST(names_threads_and_blocks_signals),
    TEST(reads_quotas_of_both_cgroup_versions),
    FORKING_TEST(survives_fork_when_idle),
    FORKING_TEST(survives_fork_while_another_thread_is_inside),
    FORKING_TEST(survives_fork_at_any_moment),
    FORKING_TEST(tells_a_child_forked_in_the_middle),
    FORKING_TEST(counts_cores_again_after_fork))
