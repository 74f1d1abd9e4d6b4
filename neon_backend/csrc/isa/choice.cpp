/* Which instruction sets were built, and which this machine has. */
#include "../interface/bfloat16.h"
#include "../interface/float16.h"
#include "../interface/kernels.h"
#include <string.h>
#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

extern "C" {
#if defined(__x86_64__)
extern const neon_kernels neon_kernels_avx512, neon_kernels_avx2;
extern const neon_bfloat16_kernels *const neon_bfloat16_amx, *const neon_bfloat16_avx512;
#elif defined(__aarch64__)
extern const neon_kernels neon_kernels_neon;
extern const neon_float16_kernels *const neon_float16_neon;
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

#if defined(__x86_64__)
/* The matrix unit: CPUID, then Linux, which gives a process the registers when it asks (arch_prctl(2), ARCH_REQ_XCOMP_PERM). */
static int has_matrix_unit() {
#if defined(__linux__)
    unsigned a, b, c, d;
    const unsigned bf16 = 1u << 22, tiles = 1u << 24;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (bf16 | tiles)) != (bf16 | tiles)) return 0;
    const long request_permission = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return 0;
#endif
}
#endif

extern "C" const neon_bfloat16_kernels *neon_bfloat16_kernels_of(const char *instruction_set, const char *unit) {
#if defined(__x86_64__)
    if (strcmp(instruction_set, "avx512") != 0 || !is_here("avx512") || !__builtin_cpu_supports("avx512bf16")) return NULL;
    const neon_bfloat16_kernels *const units[] = {neon_bfloat16_amx, neon_bfloat16_avx512};
    for (const neon_bfloat16_kernels *each : units)
        if ((unit == NULL || strcmp(unit, each->name) == 0) && (each != neon_bfloat16_amx || has_matrix_unit())) return each;
#endif
    (void)instruction_set, (void)unit;
    return NULL;
}

extern "C" const neon_float16_kernels *neon_float16_kernels_of(const char *instruction_set, const char *unit) {
#if defined(__aarch64__) && defined(__linux__)
    if (strcmp(instruction_set, "neon") == 0 && (unit == NULL || strcmp(unit, neon_float16_neon->name) == 0) &&
        (getauxval(AT_HWCAP) & HWCAP_ASIMDHP) != 0)
        return neon_float16_neon;
#endif
    (void)instruction_set, (void)unit;
    return NULL;
}
