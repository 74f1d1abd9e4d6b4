/* The float32 peak of this machine: prints the multiply-accumulates per second of as many threads
 * as its argument says.
 *
 *     cc -O3 -march=native -ffp-contract=fast -pthread peak.c -o peak && ./peak 2
 *
 * Independent chains of fused multiply-adds on the widest vectors that the compiler was told of, as
 * many as registers hold: enough to hide the latency (4 cycles or so) of all units (2 to 4). The
 * best of eight spans of about 8 ms; each begins when all threads run, without sleeping, since a
 * kernel may wake sleepers on one core, and each thread stays on a core of its own.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__AVX512F__)
#define BYTES 64
#define EACH(OP) EIGHT(OP, 0) EIGHT(OP, 1) EIGHT(OP, 2)
#define CHAINS 24
#elif defined(__AVX__)
#define BYTES 32
#define EACH(OP) EIGHT(OP, 0) FOUR(OP, 1)
#define CHAINS 12
#elif defined(__aarch64__)
#define BYTES 16
#define EACH(OP) EIGHT(OP, 0) EIGHT(OP, 1) EIGHT(OP, 2)
#define CHAINS 24
#else
#define BYTES 16
#define EACH(OP) EIGHT(OP, 0) FOUR(OP, 1)
#define CHAINS 12
#endif
#define FOUR(OP, G) OP(G##0) OP(G##1) OP(G##2) OP(G##3)
#define EIGHT(OP, G) FOUR(OP, G) OP(G##4) OP(G##5) OP(G##6) OP(G##7)
#define LANES (BYTES / sizeof(float))
#define MOST_THREADS 1024

typedef float vector __attribute__((vector_size(BYTES)));

static atomic_int waiting;
static long turns = 20000;
static double begun[MOST_THREADS], ended[MOST_THREADS];
static volatile float sink[MOST_THREADS];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static float multiply_add(long count) {
    const vector zero = {0};
    const vector factor = zero + 0.999f, term = zero + 0.001f;
#define START(N) vector c##N = zero + 0.01f * (1##N % 97);
    EACH(START)
    for (long turn = 0; turn < count; turn++) {
#define STEP(N) c##N = c##N * factor + term;
        EACH(STEP)
    }
    vector sum = zero;
#define ADD(N) sum += c##N;
    EACH(ADD)
    return sum[0] + sum[LANES - 1];
}

static void *span(void *argument) {
    const int index = (int)(long)argument;
#ifdef __linux__
    cpu_set_t usable, own;
    if (sched_getaffinity(0, sizeof usable, &usable) == 0) {
        CPU_ZERO(&own);
        for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &usable) && seen++ == index) CPU_SET(cpu, &own);
        if (CPU_COUNT(&own)) pthread_setaffinity_np(pthread_self(), sizeof own, &own);
    }
#endif
    atomic_fetch_sub(&waiting, 1);
    while (atomic_load(&waiting) > 0) { }
    begun[index] = now();
    sink[index] = multiply_add(turns);
    ended[index] = now();
    return NULL;
}

/* Runs one span; answers with its seconds, from the first to begin to the last to end. */
static double seconds_of(int threads) {
    pthread_t handles[MOST_THREADS];
    atomic_store(&waiting, threads);
    for (long index = 0; index < threads; index++)
        if (pthread_create(&handles[index], NULL, span, (void *)index)) {
            fputs("no more threads\n", stderr);
            exit(1);
        }
    for (int index = 0; index < threads; index++) pthread_join(handles[index], NULL);
    double first = begun[0], last = ended[0];
    for (int index = 1; index < threads; index++) {
        if (begun[index] < first) first = begun[index];
        if (ended[index] > last) last = ended[index];
    }
    return last - first;
}

int main(int count, char **arguments) {
    const int threads = count > 1 ? atoi(arguments[1]) : 1;
    if (threads < 1 || threads > MOST_THREADS) return 2;
    while (seconds_of(threads) < 8e-3 && turns < 1L << 40) turns *= 2;
    double best = 0;
    for (int attempt = 0; attempt < 8; attempt++) {
        const double rate = (double)threads * (double)turns * CHAINS * LANES / seconds_of(threads);
        if (rate > best) best = rate;
    }
    printf("%.6e\n", best);
    return 0;
}
