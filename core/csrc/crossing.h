/* Copies into memory that another core reads, and has in its cache from the last time.
 *
 * A plain store takes each line out of that cache first; a streaming store sends whole lines to
 * memory, where the other core finds them. Which takes less time depends on the machine and on the
 * size: the copy of 150 kB alone took 66 us and 5 us on an AMD EPYC, 16 us and 17 us on an Intel
 * Xeon with AMX. So both are tried, and the time of the copies decides.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Fewer bytes are stored plainly, and nothing is timed. */
enum { DVT_STREAM_BYTES = 8192 };

enum { DVT_PLAIN_STORES, DVT_STREAMING_STORES, DVT_STORES };

/* What was measured; zeros to begin with. */
typedef struct {
    uint32_t copies;
    int64_t ns[DVT_STORES];     /* smoothed */
} dvt_crossing;

/* Which stores to copy so many bytes with, this time. */
int dvt_stores_for(dvt_crossing *crossing, size_t bytes);

/* Copy; what is not aligned to 16 bytes, or where there are no streaming stores, plainly. */
void dvt_copy_across(void *to, const void *from, size_t bytes, int stores);

/* Take note of how long all that was copied at once took. */
void dvt_took(dvt_crossing *crossing, int stores, int64_t ns);
