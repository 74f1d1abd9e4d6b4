/* Which instruction sets were built, and which this machine has. */
#include "../interface/kernels.h"
#include <string.h>

extern "C" {
#if defined(__x86_64__)
extern const neon_kernels neon_kernels_avx512, neon_kernels_avx2;
#elif defined(__aarch64__)
extern const neon_kernels neon_kernels_neon;
#endif
extern const neon_kernels neon_kernels_scalar;
}

static const neon_kernels *const BUILT[] = {
#if defined(__x86_64__)
    &neon_kernels_avx512, &neon_kernels_avx2,
#elif defined(__aarch64__)
    &neon_kernels_neon,
#endif
    &neon_kernels_scalar,
};
static const int COUNT = sizeof(BUILT) / sizeof(BUILT[0]);

static int is_here(const char *name) {
#if defined(__x86_64__)
    /* The operating system must save the registers too: __builtin_cpu_supports asks it (XGETBV). */
    if (strcmp(name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    if (strcmp(name, "avx2") == 0) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    (void)name;
    return 1;
}

extern "C" const char *neon_instruction_set(int index, int *here) {
    if (index < 0 || index >= COUNT) return NULL;
    *here = is_here(BUILT[index]->name);
    return BUILT[index]->name;
}

extern "C" const neon_kernels *neon_kernels_of(const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (strcmp(BUILT[i]->name, name) == 0 && is_here(name)) return BUILT[i];
    return NULL;
}
