#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../../csrc/watchdog.h"
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define MS INT64_C(1000000)
#define SHORT_TICKS (DVT_TICK_NS < MS)

/* Wait until `stop` has `bits`; returns when it was seen, or 0 at `until`. */
static int64_t wait_for(dvt_watch *watch, int bits, int64_t until)
{
    for (int64_t now = dvt_now_ns(); now < until; now = dvt_now_ns()) {
        if (atomic_load(&watch->stop) & bits) {
            return now;
        }
        sleep_us(50);
    }
    return 0;
}

static void does_nothing_without_reason(void)
{
    dvt_watch watch;
    memset(&watch, 0xff, sizeof watch);
    CHECK(dvt_watch_begin(&watch, 0, 0) == 0);
    CHECK(watch.stop == 0);
    sleep_us(3000);
    dvt_watch_end(&watch);
    CHECK(watch.stop == 0);
}

/* The best of several: other processes may hold up any one of them, but none may be early. */
static void fires_at_the_deadline(void)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < 12; i++) {
        dvt_watch watch;
        int64_t deadline = dvt_now_ns() + (i % 4 * 7 + 1) * MS;
        CHECK(dvt_watch_begin(&watch, deadline, 0) == 0);
        int64_t fired = wait_for(&watch, DVT_TIMED_OUT, deadline + 2000 * MS);
        CHECK(fired >= deadline);
        best = fired - deadline < best ? fired - deadline : best;
        dvt_watch_end(&watch);
        CHECK(watch.stop == DVT_TIMED_OUT);
    }
    CHECK(best < 5 * MS);
}

static void fires_at_once_when_the_deadline_has_passed(void)
{
    dvt_watch watch;
    CHECK(dvt_watch_begin(&watch, 1, 0) == 0);
    CHECK(wait_for(&watch, DVT_TIMED_OUT, dvt_now_ns() + 2000 * MS));
    dvt_watch_end(&watch);
}

static void keeps_deadlines_apart(void)
{
    static const int order[] = {3, 0, 4, 1, 2};
    dvt_watch watches[5];
    int64_t start = dvt_now_ns() + 10 * MS;
    for (int i = 0; i < 5; i++) {
        CHECK(dvt_watch_begin(&watches[order[i]], start + order[i] * 30 * MS, 0) == 0);
    }
    dvt_watch_end(&watches[2]);
    for (int i = 0; i < 5; i++) {
        if (i != 2) {
            int64_t fired = wait_for(&watches[i], DVT_TIMED_OUT, start + 5000 * MS);
            CHECK(fired >= start + i * 30 * MS);
        }
    }
    CHECK(watches[2].stop == 0);
    for (int i = 4; i >= 0; i--) {
        if (i != 2) {
            dvt_watch_end(&watches[i]);
        }
    }
}

static void sleeps_until_the_deadline(void)
{
    dvt_watch watch;
    struct timespec before, after;
    CHECK(dvt_watch_begin(&watch, dvt_now_ns() + 60000 * MS, 0) == 0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    sleep_us(200000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    dvt_watch_end(&watch);
    CHECK((after.tv_sec - before.tv_sec) * 1000 * MS + after.tv_nsec - before.tv_nsec < 20 * MS);
}

static void never_fires_after_the_end(void)
{
    for (int i = 0; i < 300; i++) {
        dvt_watch watch;
        CHECK(dvt_watch_begin(&watch, dvt_now_ns() + 200000 + i * 1000, i % 2) == 0);
        sleep_us(i % 4 ? 100 + i : 0);
        dvt_watch_end(&watch);
        int stop = watch.stop;
        memset(&watch, 0x5a, sizeof watch);         /* not atomic: ThreadSanitizer sees anybody else who still writes */
        sleep_us(i % 8 ? 0 : 600);
        for (size_t byte = 0; byte < sizeof watch; byte++) {
            CHECK(((unsigned char *)&watch)[byte] == 0x5a);
        }
        CHECK(!(stop & ~(DVT_TIMED_OUT | DVT_POLL)));
    }
}

static void asks_a_long_run_to_poll_again_and_again(void)
{
    dvt_watch watch;
    int64_t start = dvt_now_ns(), last = start;
    CHECK(dvt_watch_begin(&watch, 0, 1) == 0);
    for (int i = 0; i < 4; i++) {
        last = wait_for(&watch, DVT_POLL, last + 20 * DVT_TICK_NS + 2000 * MS);
        CHECK(last);
        CHECK(dvt_watch_take_poll(&watch) == 1);
        if (!SHORT_TICKS) {
            CHECK(dvt_watch_take_poll(&watch) == 0);
        }
    }
    CHECK(last - start >= 3 * DVT_TICK_NS);
    dvt_watch_end(&watch);
}

static void hides_no_bit_behind_another(void)
{
    dvt_watch watch;
    int64_t deadline = dvt_now_ns() + 3 * MS;
    CHECK(dvt_watch_begin(&watch, deadline, 1) == 0);
    atomic_fetch_or(&watch.stop, DVT_CANCELLED);
    CHECK(wait_for(&watch, DVT_TIMED_OUT, deadline + 2000 * MS));
    CHECK(wait_for(&watch, DVT_POLL, dvt_now_ns() + 10 * DVT_TICK_NS + 2000 * MS));
    CHECK(dvt_watch_take_poll(&watch));
    dvt_watch_end(&watch);
    CHECK((watch.stop & DVT_ENDED) == (DVT_CANCELLED | DVT_TIMED_OUT));
}

/* One watch used again and again, as the core does: only its sequence number tells the runs apart.
 * With the process held up for longer than a tick a run is rightly asked, hence the limit by the
 * clock. */
static void never_asks_short_runs(void)
{
    dvt_watch watch;
    for (int i = 0; i < 150 && !SHORT_TICKS; i++) {
        int64_t start = dvt_now_ns();
        CHECK(dvt_watch_begin(&watch, 0, 1) == 0);
        sleep_us(DVT_TICK_NS / 1000 / 8);
        dvt_watch_end(&watch);
        CHECK(!(watch.stop & DVT_POLL) || dvt_now_ns() - start >= DVT_TICK_NS);
    }
}

static void asks_the_innermost_of_nested_runs(void)
{
    dvt_watch outer, inner;
    int64_t patience = 20 * DVT_TICK_NS + 2000 * MS;
    CHECK(dvt_watch_begin(&outer, 0, 1) == 0);
    CHECK(wait_for(&outer, DVT_POLL, dvt_now_ns() + patience));
    CHECK(dvt_watch_begin(&inner, 0, 1) == 0);
    dvt_watch_take_poll(&outer);
    CHECK(wait_for(&inner, DVT_POLL, dvt_now_ns() + patience));
    CHECK(!(atomic_load(&outer.stop) & DVT_POLL));
    dvt_watch_end(&inner);
    CHECK(wait_for(&outer, DVT_POLL, dvt_now_ns() + patience));
    dvt_watch_end(&outer);
}

/* Longer than the watchdog stays awake without a run (50 ticks), so that begin has to wake it. */
static void wakes_up_after_a_long_silence(void)
{
    for (int i = 0; i < 2; i++) {
        dvt_watch watch;
        sleep_us((DVT_TICK_NS * 56 + 5 * MS) / 1000);
        CHECK(dvt_watch_begin(&watch, 0, 1) == 0);
        CHECK(wait_for(&watch, DVT_POLL, dvt_now_ns() + 20 * DVT_TICK_NS + 2000 * MS));
        dvt_watch_end(&watch);
    }
}

/* Runs of all lengths around the tick, each in a page of its own that is gone right after the end:
 * whoever writes there then crashes the process. */
static void may_free_a_watch_after_its_end(void)
{
    for (int i = 0; i < 4000; i++) {
        dvt_watch *watch = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(watch != MAP_FAILED);
        CHECK(dvt_watch_begin(watch, i % 5 ? 0 : dvt_now_ns() + 100000, 1) == 0);
        for (int64_t until = dvt_now_ns() + i % 200 * 1000; dvt_now_ns() < until;) {
        }
        dvt_watch_end(watch);
        memset(watch, 0x5a, sizeof *watch);
        CHECK(munmap(watch, 4096) == 0);
    }
}

static void bears_100k_runs_between_ticks(void)
{
    dvt_watch watches[16];
    for (int i = 0; i < 100000; i++) {
        dvt_watch *watch = &watches[i % 16];
        CHECK(dvt_watch_begin(watch, 0, 1) == 0);
        dvt_watch_end(watch);
        CHECK(!(watch->stop & DVT_ENDED));
        memset(watch, 0, sizeof *watch);
    }
}

static void *run_with_deadlines(void *arg)
{
    int wants_poll = *(int *)arg;
    for (int i = 0; i < 2000; i++) {
        dvt_watch watch;
        int64_t deadline = dvt_now_ns() + i % 100 * 5000;
        CHECK(dvt_watch_begin(&watch, deadline, wants_poll) == 0);
        if (i % 50 == 0) {
            CHECK(wait_for(&watch, DVT_TIMED_OUT, deadline + 2000 * MS) >= deadline);
        }
        dvt_watch_end(&watch);
        CHECK(!(watch.stop & DVT_TIMED_OUT) || dvt_now_ns() >= deadline);
    }
    return NULL;
}

static void serves_many_threads(void)
{
    static int wants_poll[6] = {1};
    pthread_t threads[6];
    for (int i = 0; i < 6; i++) {
        CHECK(pthread_create(&threads[i], NULL, run_with_deadlines, &wants_poll[i]) == 0);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void check_deadline_and_poll(UNUSED void *unused)
{
    fires_at_the_deadline();
    asks_a_long_run_to_poll_again_and_again();
}

/* The watches of two threads that do not exist in a child; the child unmaps them, as it may their
 * stacks. */
static struct pages {
    dvt_watch *polled;
    dvt_watch *timed;
    dvt_watch own;
} pages;

static dvt_watch *map_watch(void)
{
    dvt_watch *watch = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(watch != MAP_FAILED);
    return watch;
}

static void use_without_the_watches_of_the_parent(void *unused)
{
    CHECK(munmap(pages.polled, 4096) == 0 && munmap(pages.timed, 4096) == 0);
    dvt_watch_end(&pages.own);
    check_deadline_and_poll(unused);
    sleep_us(4 * DVT_TICK_NS / 1000);
    check_deadline_and_poll(unused);
}

static void survives_fork(void)
{
    check_in_child(check_deadline_and_poll, NULL);
    int64_t deadline = dvt_now_ns() + 20 * MS;
    pages.polled = map_watch();
    pages.timed = map_watch();
    CHECK(dvt_watch_begin(pages.polled, 0, 1) == 0);
    CHECK(dvt_watch_begin(pages.timed, dvt_now_ns() + 60000 * MS, 0) == 0);
    CHECK(dvt_watch_begin(&pages.own, deadline, 0) == 0);
    check_in_child(use_without_the_watches_of_the_parent, NULL);
    CHECK(wait_for(&pages.own, DVT_TIMED_OUT, deadline + 2000 * MS));
    dvt_watch_end(&pages.own);
    dvt_watch_end(pages.timed);
    dvt_watch_end(pages.polled);
}

static _Atomic int churning;

static void *churn(void *unused)
{
    while (churning) {
        dvt_watch watch;
        CHECK(dvt_watch_begin(&watch, dvt_now_ns() + 20000, 1) == 0);
        dvt_watch_end(&watch);
    }
    return unused;
}

static void fire_one_deadline(UNUSED void *unused)
{
    dvt_watch watch;
    CHECK(dvt_watch_begin(&watch, dvt_now_ns() + MS, 1) == 0);
    CHECK(wait_for(&watch, DVT_TIMED_OUT, dvt_now_ns() + 2000 * MS));
    dvt_watch_end(&watch);
}

static void survives_fork_at_any_moment(void)
{
    pthread_t thread;
    churning = 1;
    CHECK(pthread_create(&thread, NULL, churn, NULL) == 0);
    for (int i = 0; i < 50; i++) {
        sleep_us(i * 23);
        check_in_child(fire_one_deadline, NULL);
    }
    churning = 0;
    pthread_join(thread, NULL);
}

RUN_TESTS(
    TEST(does_nothing_without_reason),
    TEST(fires_at_the_deadline),
    TEST(fires_at_once_when_the_deadline_has_passed),
    TEST(keeps_deadlines_apart),
    TEST(sleeps_until_the_deadline),
    TEST(never_fires_after_the_end),
    TEST(asks_a_long_run_to_poll_again_and_again),
    TEST(hides_no_bit_behind_another),
    TEST(never_asks_short_runs),
    TEST(asks_the_innermost_of_nested_runs),
    TEST(wakes_up_after_a_long_silence),
    TEST(may_free_a_watch_after_its_end),
    TEST(bears_100k_runs_between_ticks),
    TEST(serves_many_threads),
    FORKING_TEST(survives_fork),
    FORKING_TEST(survives_fork_at_any_moment))
