#include "../../csrc/crossing.h"
#include "check.h"

#include <stdint.h>

enum { MOST = 70000, MARGIN = 128 };

static unsigned char from[MOST + MARGIN], to[MOST + MARGIN];

/* Every size near the ends of lines, from and to every alignment, and nothing beside. */
static void test_all_bytes_and_no_others_are_copied(void)
{
    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (unsigned char)(i * 37 + i / 251 + 1);
    }
    const size_t sizes[] = {0, 1, 15, 16, 63, 64, 65, 127, 128, 200, 8192, 8255, MOST};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t at = 0; at < 40; at++) {
            for (int stores = 0; stores < DVT_STORES; stores++) {
                const size_t there = (at * 7) % 33;
                memset(to, 0, sizeof to);
                dvt_copy_across(to + there, from + at, sizes[s], stores);
                CHECK(!memcmp(to + there, from + at, sizes[s]));
                for (size_t i = 0; i < there; i++) {
                    CHECK(!to[i]);
                }
                for (size_t i = there + sizes[s]; i < sizeof to; i++) {
                    CHECK(!to[i]);
                }
            }
        }
    }
}

/* How many of `count` copies were streamed, if copies take so long. */
UNUSED static int streamed(dvt_crossing *crossing, int count, int64_t plain_ns, int64_t streaming_ns)
{
    int found = 0;
    for (int i = 0; i < count; i++) {
        const int stores = dvt_stores_for(crossing, 100000);
        dvt_took(crossing, stores, stores == DVT_PLAIN_STORES ? plain_ns : streaming_ns);
        found += stores == DVT_STREAMING_STORES;
    }
    return found;
}

static void test_small_copies_are_plain_and_count_for_nothing(void)
{
    dvt_crossing crossing = {0};
    for (int i = 0; i < 100; i++) {
        CHECK(dvt_stores_for(&crossing, DVT_STREAM_BYTES - 1) == DVT_PLAIN_STORES);
    }
    CHECK(crossing.copies == 0);
}

#if defined(__SSE2__)
static void test_what_takes_less_time_is_kept(void)
{
    dvt_crossing fast = {0}, slow = {0}, alike = {0};
    const int streams = streamed(&fast, 1000, 60000, 6000);
    CHECK(streams > 980 && streams < 1000);     /* the other is tried now and then */
    const int rarely = streamed(&slow, 1000, 16000, 17000);
    CHECK(rarely > 8 && rarely < 20);
    CHECK(streamed(&alike, 1000, 16000, 14000) < 20);   /* the reader pays for it too */
}

static void test_one_interruption_changes_nothing_and_another_machine_does(void)
{
    dvt_crossing crossing = {0};
    streamed(&crossing, 100, 60000, 6000);
    dvt_took(&crossing, DVT_STREAMING_STORES, 50000000);
    CHECK(dvt_stores_for(&crossing, 100000) == DVT_STREAMING_STORES);
    streamed(&crossing, 100, 60000, 200000);
    CHECK(streamed(&crossing, 1000, 60000, 200000) < 20);
}

RUN_TESTS(
    TEST(test_all_bytes_and_no_others_are_copied),
    TEST(test_small_copies_are_plain_and_count_for_nothing),
    TEST(test_what_takes_less_time_is_kept),
    TEST(test_one_interruption_changes_nothing_and_another_machine_does))
#else
RUN_TESTS(
    TEST(test_all_bytes_and_no_others_are_copied),
    TEST(test_small_copies_are_plain_and_count_for_nothing))
#endif
