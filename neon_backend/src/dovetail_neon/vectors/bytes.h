/* Images of bytes, and products of them that are summed in 32 bits.
 *
 * This is what the instruction set at hand adds to vector.h (vectors/):
 *
 *   Byte, GroupBytes            an element of an image inside this backend: int8_t or uint8_t,
 *                               whichever the instructions multiply; and GROUP of them
 *   load_bytes                  LANES of them, as integers of 32 bits
 *   store_bytes                 the low bytes of BLOCK integers
 *   store_first(at, x, count)   less than all of these low bytes, or of a group; memory beyond is
 *                               left as it is
 *   low_bytes                   of GROUP integers, as stacks hold them
 *   saturated                   GROUP integers, each the nearest byte, as stacks hold them
 *   in_order                    the same bytes, first those of the first vector
 *   store_parts<bytes, count>   the first parts of a group, each to a place of its own
 *   ByteTable                   what looks up WIDTH bytes at a time in a table of 256
 *   stack_shorts(rows, x)       GROUP words, each of one int16 of either row, as stacks hold them:
 *                               what Halves multiplies
 *   unstack_shorts(x, out)      of GROUP integers, as stacks hold them, that fit 16 bits
 *   Halves                      sums of 2 products of 16 bits per lane: every machine has it
 *   Quads                       sums of 4 products of 8 bits per lane (VNNI, SDOT): where
 *                               ACC_HAS_QUADS is 1
 *
 * A group is a register of bytes: in stacks, vector v holds bytes 16 * (lane / 4) + 4 * v +
 * lane % 4, as registers that are interleaved 16 bytes at a time have them.
 *
 * Halves and Quads, the *units*, multiply words of DEPTH factors, 4 bytes in all; weights of Quads
 * have 8 bits, those of Halves 9, as many as the difference of two bytes has. A unit has:
 *
 *   Factor                      an element of weights, and of what they are multiplied with
 *   piece(at)                   four words of a pixel, side by side in memory
 *   dot<i>(sum, w, piece)       sum + the products of word i with each lane of w
 *   spread(at)                  one word, for all lanes
 *   dot(sum, w, x)              sum + the products of each lane of w and of x
 *   stack(rows, x)              GROUP words, each of one byte of every row
 *   place(lane, i)              where factor i of a lane stands in a vector
 */
#pragma once

#include "dovetail_neon/vectors/vector.h"

namespace dovetail_acc::ACC_ISA {

constexpr int BLOCK = 16;                       /* channels that are treated together: a register of bytes on any machine */
constexpr int BLOCK_VECTORS = BLOCK / LANES;
constexpr int GROUP = 4 * LANES;
constexpr int GROUP_VECTORS = 4;

INLINE int32_t load_word(const char *at) { return load_as<int32_t>(at); }
INLINE Integers load_integers(const void *at) { return load_as<Integers>(at); }

#if ACC_IS == 1
#include "dovetail_neon/vectors/avx512_bytes.h"
#elif ACC_IS == 2
#include "dovetail_neon/vectors/avx2_bytes.h"
#elif ACC_IS == 3
#include "dovetail_neon/vectors/neon_bytes.h"
#else
#include "dovetail_neon/vectors/scalar_bytes.h"
#endif

#if ACC_IS != 1
INLINE void store_first(Byte *at, GroupBytes x, int64_t count) { __builtin_memcpy(at, &x, (uint64_t)count); }
INLINE void store_first(Byte *at, const Integers (&x)[BLOCK_VECTORS], int64_t count) {
    Byte whole[BLOCK];
    store_bytes(whole, x);
    for (int64_t i = 0; i < count; i++) at[i] = whole[i];
}
#endif

constexpr bool SIGNED_BYTES = (Byte)-1 < 0;

} // namespace dovetail_acc::ACC_ISA
