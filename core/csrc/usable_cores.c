#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "usable_cores.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static _Atomic int cores;       /* 0: not asked yet */

static int affinity_cores(void)
{
    for (int size = 1024; size <= 1024 * 1024; size *= 4) {
        cpu_set_t *set = CPU_ALLOC(size);
        if (!set) {
            break;
        }
        int count = sched_getaffinity(0, CPU_ALLOC_SIZE(size), set) == 0 ? CPU_COUNT_S(CPU_ALLOC_SIZE(size), set) : 0;
        CPU_FREE(set);
        if (count > 0) {
            return count;
        }
    }
    return 1;
}

/* Read "<quota> <period>" of cgroup 2 or the first number of a file of cgroup 1. */
static int read_numbers(const char *folder, const char *name, long long *first, long long *second)
{
    char path[4352];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) {
        return 0;
    }
    FILE *file = fopen(path, "re");
    if (!file) {
        return 0;
    }
    int count = fscanf(file, "%lld %lld", first, second);
    fclose(file);
    return count < 0 ? 0 : count;
}

static int folder_quota_cores(const char *folder)
{
    long long quota = 0, period = 0, ignored;
    if (read_numbers(folder, "cpu.max", &quota, &period) != 2
        && (read_numbers(folder, "cpu.cfs_quota_us", &quota, &ignored) != 1
            || read_numbers(folder, "cpu.cfs_period_us", &period, &ignored) != 1)) {
        return 0;
    }
    if (quota <= 0 || period <= 0) {
        return 0;
    }
    /* Down: a thread too many gets the whole process throttled for the rest of the period. */
    return quota < period ? 1 : (int)(quota / period);
}

static int lesser_limit(int one, int other)
{
    return one == 0 || (other != 0 && other < one) ? other : one;
}

/* In a container the path may be the host's, of which only the root is mounted: levels that do not
 * exist are no limit. */
static int branch_quota_cores(const char *root, const char *path)
{
    char folder[4224];
    int limit = 0;
    if (snprintf(folder, sizeof folder, "%s%s", root, path) >= (int)sizeof folder) {
        return 0;
    }
    for (size_t length = strlen(folder); length >= strlen(root); length--) {
        if (folder[length] == '/' || folder[length] == '\0') {
            folder[length] = '\0';
            limit = lesser_limit(limit, folder_quota_cores(folder));
        }
    }
    return limit;
}

static int lists_cpu(char *controllers)
{
    char *rest = NULL;
    for (char *name = strtok_r(controllers, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        if (strcmp(name, "cpu") == 0) {
            return 1;
        }
    }
    return 0;
}

int dvt_quota_cores(const char *membership, const char *mount)
{
    char line[4096], root[128];
    int limit = 0;
    FILE *file = fopen(membership, "re");
    if (!file) {
        return 0;
    }
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) {
            continue;
        }
        *path++ = '\0';
        int unified = controllers[1] == '\0';
        if (unified || lists_cpu(controllers + 1)) {
            snprintf(root, sizeof root, "%s%s", mount, unified ? "" : "/cpu");
            limit = lesser_limit(limit, branch_quota_cores(root, path));
        }
    }
    fclose(file);
    return limit;
}

int dvt_usable_cores(void)
{
    int known = atomic_load_explicit(&cores, memory_order_relaxed);
    if (known == 0) {
        known = lesser_limit(affinity_cores(), dvt_quota_cores("/proc/self/cgroup", "/sys/fs/cgroup"));
        atomic_store_explicit(&cores, known, memory_order_relaxed);
    }
    return known;
}

void dvt_forget_usable_cores(void)
{
    atomic_store_explicit(&cores, 0, memory_order_relaxed);
}
