// What all sources share.

// Tensors arrive as a buffer and the bytes to their first element; BEGIN moves to that.
#define TENSOR(T, x) __global T *x, const ulong x##_bytes
#define BEGIN(T, x) x = (__global T *)((__global uchar *)x + x##_bytes)
// Of constants, which are never written to.
#define CONSTANT(T, x) __global const T *restrict x, const ulong x##_bytes

// Elements are counted in 32 bits: no tensor of this backend has more.
typedef uint index;

// A literal of the type that real numbers are computed in.
#ifndef DOUBLES
#define DOUBLES 0
#endif
#if DOUBLES
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define REAL(x) x
#else
#define REAL(x) x##f
#endif

// Declare the share that a work item has of n items, which are neighbours: from i to before end.
#define SHARE(i, end, n)                                                                           \
    const index each_##i = ((n) + (index)get_global_size(0) - 1) / (index)get_global_size(0);      \
    index i = min((n), each_##i * (index)get_global_id(0));                                        \
    const index end = min((n), i + each_##i)

// Walk over n items. A work item of a CPU takes neighbours, so that the compiler makes vectors of
// them; those of a GPU take turns, so that neighbours read neighbouring memory.
#if ON_CPU
#define EACH(i, n)                                                                                 \
    SHARE(from_##i, to_##i, n);                                                                    \
    for (index i = from_##i; i < to_##i; ++i)
#else
#define EACH(i, n) for (index i = get_global_id(0); i < (n); i += get_global_size(0))
#endif

// The larger and the smaller of two; NaN if one of them is.
#define MAX_OR_NAN(a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))
#define MIN_OR_NAN(a, b) ((((a) < (b)) | ((a) != (a))) ? (a) : (b))
// The larger of two, where NaN is left to what follows: it may be dropped.
#define MAX_BUT_NAN(a, b) ((b) > (a) ? (b) : (a))

// The least and greatest number of each type, by its name.
#define SHORT_MIN SHRT_MIN
#define SHORT_MAX SHRT_MAX
#define UCHAR_MIN 0
#define USHORT_MIN 0
#define USHORT_MAX USHRT_MAX
#define UINT_MIN 0u
#define ULONG_MIN 0ul

// How elements of each type are read to be computed with, and written: 16-bit floats are computed
// with as floats, and rounded to nearest even.
#define LOAD_float(p, i) ((p)[i])
#define STORE_float(p, i, v) ((p)[i] = (v))
#define LOAD_half(p, i) vload_half(i, p)
#define STORE_half(p, i, v) vstore_half_rte(v, i, p)
// The upper half of a float.
typedef ushort bfloat;
#define LOAD_bfloat(p, i) as_float((uint)(p)[i] << 16)
#define STORE_bfloat(p, i, v) ((p)[i] = bfloat_of(v))
static bfloat bfloat_of(const float v)
{
    const uint bits = as_uint(v);
    return isnan(v) ? 0x7FC0 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}
#define LOAD_double(p, i) ((p)[i])
#define STORE_double(p, i, v) ((p)[i] = (v))
#define LOAD_int(p, i) ((p)[i])
#define STORE_int(p, i, v) ((p)[i] = (v))
#define LOAD_long(p, i) ((p)[i])
#define STORE_long(p, i, v) ((p)[i] = (v))
#define LOAD_char(p, i) ((p)[i])
#define STORE_char(p, i, v) ((p)[i] = (v))
#define LOAD_short(p, i) ((p)[i])
#define STORE_short(p, i, v) ((p)[i] = (v))
#define LOAD_uchar(p, i) ((p)[i])
#define STORE_uchar(p, i, v) ((p)[i] = (v))
#define LOAD_ushort(p, i) ((p)[i])
#define STORE_ushort(p, i, v) ((p)[i] = (v))
#define LOAD_uint(p, i) ((p)[i])
#define STORE_uint(p, i, v) ((p)[i] = (v))
#define LOAD_ulong(p, i) ((p)[i])
#define STORE_ulong(p, i, v) ((p)[i] = (v))
#define JOINED_AS_IS(a, b) a##b
#define JOINED(a, b) JOINED_AS_IS(a, b)  // of what they stand for
#define LOAD_AS(T, p, i) JOINED(LOAD_, T)(p, i)
#define STORE_AS(T, p, i, v) JOINED(STORE_, T)(p, i, v)

// Vectors of halves at any multiple of the size of one: PoCL's own vload_half and vstore_half want
// addresses that are multiples of a vector.
#if ON_CPU
#define HALVES(count)                                                                              \
    typedef ushort##count loose_halves##count __attribute__((aligned(2)));                         \
    static float##count load_halves##count(__global const half *p)                                 \
    {                                                                                              \
        const ushort##count bits = *(__global const loose_halves##count *)p;                       \
        return vload_half##count(0, (const half *)&bits);                                          \
    }                                                                                              \
    static void store_halves##count(__global half *p, const float##count v)                        \
    {                                                                                              \
        ushort##count bits;                                                                        \
        vstore_half##count##_rte(v, 0, (half *)&bits);                                             \
        *(__global loose_halves##count *)p = bits;                                                 \
    }
#else
#define HALVES(count)                                                                              \
    static float##count load_halves##count(__global const half *p)                                 \
    {                                                                                              \
        return vload_half##count(0, p);                                                            \
    }                                                                                              \
    static void store_halves##count(__global half *p, const float##count v)                        \
    {                                                                                              \
        vstore_half##count##_rte(v, 0, p);                                                         \
    }
#endif
HALVES(4)
HALVES(8)
HALVES(16)
#undef HALVES

// The same of bfloat.
#define BFLOATS(count)                                                                             \
    static float##count load_bfloats##count(__global const bfloat *p)                              \
    {                                                                                              \
        return as_float##count(convert_uint##count(vload##count(0, p)) << 16);                     \
    }                                                                                              \
    static void store_bfloats##count(__global bfloat *p, const float##count v)                     \
    {                                                                                              \
        const uint##count bits = as_uint##count(v);                                                \
        const uint##count rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;                      \
        vstore##count(convert_ushort##count(isnan(v) ? (uint##count)0x7FC0 : rounded), 0, p);      \
    }
BFLOATS(4)
BFLOATS(8)
BFLOATS(16)
#undef BFLOATS

// Vectors of floats likewise: PoCL's own vstore is several instructions.
#if ON_CPU
#define STORES(count, SPACE)                                                                       \
    static void __attribute__((overloadable, always_inline))                                       \
        store_floats##count(SPACE float *p, const float##count v)                                  \
    {                                                                                              \
        typedef float##count loose __attribute__((aligned(4)));                                    \
        *(SPACE loose *)p = v;                                                                     \
    }
#define FLOATS(count) STORES(count, __global) STORES(count, __local) STORES(count, __private)
FLOATS(4)
FLOATS(8)
FLOATS(16)
#undef FLOATS
#undef STORES
// Bytes likewise.
#define BYTES(T, count)                                                                            \
    static void __attribute__((overloadable, always_inline))                                       \
        store_bytes##count(__global T *p, const T##count v)                                        \
    {                                                                                              \
        typedef T##count loose __attribute__((aligned(1)));                                        \
        *(__global loose *)p = v;                                                                  \
    }
BYTES(char, 4) BYTES(char, 8) BYTES(char, 16) BYTES(uchar, 4) BYTES(uchar, 8) BYTES(uchar, 16)
#undef BYTES
#else
#define store_bytes4(p, v) vstore4(v, 0, p)
#define store_bytes8(p, v) vstore8(v, 0, p)
#define store_bytes16(p, v) vstore16(v, 0, p)
#define store_floats4(p, v) vstore4(v, 0, p)
#define store_floats8(p, v) vstore8(v, 0, p)
#define store_floats16(p, v) vstore16(v, 0, p)
#endif
