/* What packing at load time asks now and then: weights of gigabytes take longer than a load may go
 * on after its deadline. */
#pragma once

#include <stdint.h>

typedef struct acc_packing {
    int (*is_over)(struct acc_packing *self);  /* true if the load should end */
    int64_t work;                               /* elements since it was asked */
    int32_t over;                               /* what it said */
} acc_packing;

/* Count elements that are about to be packed; true if the rest is to be left undone. */
static inline int acc_packing_stops(acc_packing *packing, int64_t elements) {
    packing->work += elements;
    if (packing->work >= 1 << 20 && !packing->over) {
        packing->work = 0;
        packing->over = packing->is_over(packing);
    }
    return packing->over;
}
