/* How many cores this process may use, as the scheduler sees it. */
#pragma once

/* Cores this process may use: the affinity mask and the CPU quota of its cgroups, whichever is
 * less; at least 1. Read once, and again after fork(). */
int dvt_usable_cores(void);

/* Whole cores that CPU quotas leave, 0 if there is none. `membership`: a file like
 * /proc/self/cgroup; `mount`: where the hierarchies are mounted. Any level from the process's group
 * up to the root may set a quota. */
int dvt_quota_cores(const char *membership, const char *mount);

/* Ask again the next time: after fork() the child may have been moved. */
void dvt_forget_usable_cores(void);
