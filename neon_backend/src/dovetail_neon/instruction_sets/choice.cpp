/* Which instruction sets were built, and which this machine has. */
#include "dovetail_neon/instruction_sets/precisions.h"
#include "dovetail_neon/instruction_sets/table.h"
#include <string.h>
#if defined(__x86_64__) && !defined(ACC_SCALAR_ONLY)
#define BUILT_FOR_X86 1
#elif defined(__aarch64__) && !defined(ACC_SCALAR_ONLY)
#define BUILT_FOR_ARM 1
#endif
#if BUILT_FOR_X86 && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif BUILT_FOR_ARM && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

extern "C" {
#if BUILT_FOR_X86
extern const acc_kernels acc_kernels_avx512, acc_kernels_avx2;
extern const acc_precision acc_bfloat16_amx, acc_bfloat16_avx512;
extern const acc_quantized_kernels *const acc_quantized_avx512_vnni, *const acc_quantized_avx2_vnni;
extern const acc_quantized_matrix_kernels *const acc_quantized_amx;
#elif BUILT_FOR_ARM
extern const acc_kernels acc_kernels_neon;
extern const acc_precision acc_float16_fp16;
extern const acc_quantized_kernels *const acc_quantized_neon_dotprod;
#endif
extern const acc_kernels acc_kernels_scalar;
}

static const acc_kernels *const BUILT[] = {
#if BUILT_FOR_X86
    &acc_kernels_avx512, &acc_kernels_avx2,
#elif BUILT_FOR_ARM
    &acc_kernels_neon,
#endif
    &acc_kernels_scalar,
};
static const int COUNT = sizeof(BUILT) / sizeof(BUILT[0]);

static int is_here(const char *name) {
#if BUILT_FOR_X86
    /* The operating system must save the registers too: __builtin_cpu_supports asks it (XGETBV). */
    if (strcmp(name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    if (strcmp(name, "avx2") == 0) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    (void)name;
    return 1;
}

extern "C" const char *acc_instruction_set(int index, int *here) {
    if (index < 0 || index >= COUNT) return NULL;
    *here = is_here(BUILT[index]->name);
    return BUILT[index]->name;
}

extern "C" const acc_kernels *acc_kernels_of(const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (strcmp(BUILT[i]->name, name) == 0 && is_here(name)) return BUILT[i];
    return NULL;
}

#if BUILT_FOR_X86
/* The matrix unit: CPUID, then Linux, which gives a process the registers when it asks
 * (arch_prctl(2), ARCH_REQ_XCOMP_PERM). */
enum { OF_BFLOAT16 = 1 << 22, OF_BYTES = 1 << 25 };     /* bits of EDX */
static int has_matrix_unit(unsigned products) {
#if defined(__linux__)
    unsigned a, b, c, d;
    const unsigned tiles = 1u << 24, wanted = products | tiles;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & wanted) != wanted) return 0;
    const long request_permission = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    (void)products;
    return 0;
#endif
}
#endif

#if BUILT_FOR_X86
static const acc_precision *const PRECISIONS[] = {&acc_bfloat16_amx, &acc_bfloat16_avx512};
static const char *const SET_OF_PRECISIONS = "avx512";
static int has_precision(const acc_precision *each) {
    return is_here("avx512") && __builtin_cpu_supports("avx512bf16") && (each != &acc_bfloat16_amx || has_matrix_unit(OF_BFLOAT16));
}
#elif BUILT_FOR_ARM && defined(__linux__)
static const acc_precision *const PRECISIONS[] = {&acc_float16_fp16};
static const char *const SET_OF_PRECISIONS = "neon";
static int has_precision(const acc_precision *) { return (getauxval(AT_HWCAP) & HWCAP_ASIMDHP) != 0; }
#endif

extern "C" const acc_precision *acc_precision_of(const char *instruction_set, const char *precision, const char *unit) {
#if BUILT_FOR_X86 || (BUILT_FOR_ARM && defined(__linux__))
    if (strcmp(instruction_set, SET_OF_PRECISIONS) != 0) return NULL;
    for (const acc_precision *each : PRECISIONS)
        if (strcmp(precision, each->precision) == 0 && (unit == NULL || strcmp(unit, each->unit) == 0) && has_precision(each))
            return each;
#endif
    (void)instruction_set, (void)precision, (void)unit;
    return NULL;
}

/* Kernels with an instruction set's dot products of bytes; NULL if this machine has none. */
static const acc_quantized_kernels *with_dot_products(const char *instruction_set) {
#if BUILT_FOR_X86
    if (strcmp(instruction_set, "avx512") == 0 && __builtin_cpu_supports("avx512vnni")) return acc_quantized_avx512_vnni;
    unsigned a, b, c, d;
    const unsigned avx_vnni = 1u << 4;      /* EAX of leaf 7, subleaf 1 */
    if (strcmp(instruction_set, "avx2") == 0 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & avx_vnni) != 0)
        return acc_quantized_avx2_vnni;
#elif BUILT_FOR_ARM && defined(__linux__)
    if (strcmp(instruction_set, "neon") == 0 && (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) return acc_quantized_neon_dotprod;
#endif
    (void)instruction_set;
    return NULL;
}

extern "C" const acc_quantized_kernels *acc_quantized_kernels_of(const char *instruction_set, int32_t dot_products) {
    const acc_kernels *kernels = acc_kernels_of(instruction_set);
    const acc_quantized_kernels *better = kernels != NULL && dot_products ? with_dot_products(instruction_set) : NULL;
    return better != NULL ? better : kernels != NULL ? kernels->quantized : NULL;
}

extern "C" const acc_quantized_matrix_kernels *acc_quantized_matrix_of(const acc_quantized_kernels *kernels) {
#if BUILT_FOR_X86
    if (kernels == acc_quantized_avx512_vnni && has_matrix_unit(OF_BYTES)) return acc_quantized_amx;
#endif
    (void)kernels;
    return NULL;
}
