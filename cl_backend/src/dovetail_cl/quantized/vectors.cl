// Vectors of sums of 32 bits on a CPU. A term is as many FACTORS as 32 bits hold, which an
// instruction multiplies by as many weights and adds to the sum: 4 bytes, or 2 shorts.
//
// T: type of images. VECTOR: sums of one. FACTORS: 4 where the processor multiplies bytes; else 2.

#define NAMED(a, b) JOINED(a, b)
typedef NAMED(int, VECTOR) vec;
typedef NAMED(float, VECTOR) real;
#define VLOAD NAMED(vload, VECTOR)
#define VSTORE NAMED(vstore, VECTOR)
NEAREST_OF(VECTOR)
typedef struct { int zero, low, high; } scaling;
#define FINISHED(sums, by, s) nearest(NAMED(convert_float, VECTOR)(sums) * (by), (s).zero, (s).low, (s).high)

#define SUM int
typedef int loose_int __attribute__((aligned(1)));
#define TERM loose_int
#define ADD_PRODUCT(v, b, sum) add_products(v, b, sum)

#if FACTORS == 4
#define PACKED uchar
#define CHUNK 64
typedef uint16 loose_chunk __attribute__((aligned(1)));
#define READ(x, i) (*(__global const loose_chunk *)((x) + (i)))
#define PACK(p, v) (*(__global loose_chunk *)(p) = (v))
#define OUTSIDE_OF(g) ((uint16)((g)->outside))
#define IS_char 0x80808080
#define IS_uchar 0
// Bytes of the one side are unsigned for the instruction: signed ones have 128 added here, which
// the bias takes away. Its name alone works where compilers do not know that the processor has it.
static vec add_products(const vec v, const vec b, const vec sum)
{
    vec made = sum;
    __asm__("vpdpbusd %2, %1, %0" : "+v"(made) : "v"(v ^ (int)JOINED(IS_, T)), "v"(b));
    return made;
}

#else
#define PACKED short
#define CHUNK 16
#define READ(x, i) convert_short16(vload16(0, (x) + (i)))
#define PACK(p, v) vstore16(v, 0, p)
#define OUTSIDE_OF(g) ((short16)((short)(g)->outside))
#if (VECTOR == 16 && defined(__AVX512BW__)) || (VECTOR == 8 && defined(__AVX2__))
// Compilers do not find this instruction by themselves: they split what is done to the halves.
typedef short shorts __attribute__((ext_vector_type(2 * VECTOR)));
#define AS_SHORTS(v) __builtin_astype(v, shorts)
static vec add_products(const vec v, const vec b, const vec sum)
{
#if VECTOR == 16
    return sum + __builtin_ia32_pmaddwd512(AS_SHORTS(v), AS_SHORTS(b));
#else
    return sum + __builtin_ia32_pmaddwd256(AS_SHORTS(v), AS_SHORTS(b));
#endif
}
#else
static vec add_products(const vec v, const vec b, const vec sum)
{
    return sum + (v << 16 >> 16) * (b << 16 >> 16) + (v >> 16) * (b >> 16);
}
#endif
#endif
