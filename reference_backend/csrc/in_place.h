/* Permissions to write output 0 over an input; a workload names a run of them. */
#pragma once

#include "abi.h"

static inline const dovetail_alias *in_place_of(int32_t input)
{
    static const dovetail_alias aliases[] = {
        {.relation = DOVETAIL_ALIAS_IN_PLACE, .input = 0},
        {.relation = DOVETAIL_ALIAS_IN_PLACE, .input = 1},
        {.relation = DOVETAIL_ALIAS_IN_PLACE, .input = 2},
    };
    return &aliases[input];
}
