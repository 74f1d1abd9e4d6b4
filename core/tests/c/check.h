/* What the C tests share: an assertion that works in -O2 builds and in forked children, and a
 * driver. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Before a parameter that a callback must have. */
#define UNUSED __attribute__((unused))

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);        \
            _exit(1);                                                                      \
        }                                                                                  \
    } while (0)

struct test {
    const char *name;
    void (*function)(void);
    int forks;      /* left out with --no-fork: ThreadSanitizer does not follow a fork of a threaded process */
};

#define TEST(function) {#function, function, 0}
#define FORKING_TEST(function) {#function, function, 1}

static inline void sleep_us(int64_t microseconds)
{
    struct timespec time = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000};
    nanosleep(&time, NULL);
}

/* Run `function` in a forked child; a child that hangs is killed by its alarm, and that is a
 * failure. */
static inline void check_in_child(void (*function)(void *), void *arg)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(20);
        function(arg);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static inline int run_tests(const struct test *tests, int count, int argc, char **argv)
{
    int no_fork = argc > 1 && strcmp(argv[1], "--no-fork") == 0;
    for (int i = 0; i < count; i++) {
        if (tests[i].forks && no_fork) {
            printf("%s: left out (--no-fork)\n", tests[i].name);
            continue;
        }
        printf("%s\n", tests[i].name);
        fflush(stdout);
        alarm(120);
        tests[i].function();
    }
    return 0;
}

/* The whole of main(): run these tests, in this order. */
#define RUN_TESTS(...)                                                        \
    int main(int argc, char **argv)                                           \
    {                                                                         \
        static const struct test tests[] = {__VA_ARGS__};                     \
        return run_tests(tests, sizeof tests / sizeof *tests, argc, argv);    \
    }
