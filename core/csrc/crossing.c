#include "crossing.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#define HAS_STREAMING_STORES 1
#else
#define HAS_STREAMING_STORES 0
#endif

/* So many copies try both in turn, so that none is judged by its first, of pages not yet mapped. */
#define TRIALS 16

/* Of later ones one in so many is stored in the other way: threads move between cores. */
#define TRIAL_EVERY 256

/* A sample counts for 1/8; one that was interrupted for no more than four times what is known. */
#define SMOOTHING 8
#define OUTLIER_RATIO 4

int dvt_stores_for(dvt_crossing *crossing, size_t bytes)
{
    if (!HAS_STREAMING_STORES || bytes < DVT_STREAM_BYTES) {
        return DVT_PLAIN_STORES;
    }
    const uint32_t number = crossing->copies++;
    if (number < TRIALS) {
        return number % 2 ? DVT_STREAMING_STORES : DVT_PLAIN_STORES;
    }
    /* The other core then reads from memory, which the time of a copy does not tell. */
    const int better = crossing->ns[DVT_STREAMING_STORES] < crossing->ns[DVT_PLAIN_STORES] * 3 / 4;
    return number % TRIAL_EVERY ? better : !better;
}

void dvt_took(dvt_crossing *crossing, int stores, int64_t ns)
{
    int64_t *known = &crossing->ns[stores];
    if (*known <= 0 || crossing->copies <= TRIALS) {
        *known = *known <= 0 || ns < *known ? ns : *known;
        return;
    }
    const int64_t limit = OUTLIER_RATIO * *known;
    *known += ((ns < limit ? ns : limit) - *known) / SMOOTHING;
}

void dvt_copy_across(void *to, const void *from, size_t bytes, int stores)
{
#if HAS_STREAMING_STORES
    if (stores == DVT_STREAMING_STORES && (uintptr_t)to % 16 == 0) {
        char *target = to;
        const char *source = from;
        size_t left = bytes;
        for (; left >= 64; left -= 64, target += 64, source += 64) {  /* a line, whole */
            const __m128i first = _mm_loadu_si128((const __m128i *)source);
            const __m128i second = _mm_loadu_si128((const __m128i *)(source + 16));
            const __m128i third = _mm_loadu_si128((const __m128i *)(source + 32));
            const __m128i fourth = _mm_loadu_si128((const __m128i *)(source + 48));
            _mm_stream_si128((__m128i *)target, first);
            _mm_stream_si128((__m128i *)(target + 16), second);
            _mm_stream_si128((__m128i *)(target + 32), third);
            _mm_stream_si128((__m128i *)(target + 48), fourth);
        }
        memcpy(target, source, left);
        _mm_sfence();           /* before the word that says that they are there */
        return;
    }
#else
    (void)stores;
#endif
    memcpy(to, from, bytes);
}
