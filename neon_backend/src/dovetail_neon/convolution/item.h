/* What an item of the range of a convolution is. */
#pragma once

#include "dovetail_neon/vectors/vector.h"

namespace dovetail_acc::ACC_ISA {

/* A panel of filters over a chunk of the results of an image. Items go by images, chunks, groups
 * and panels; or, unless chunks are first, by images, groups, panels and chunks. */
struct PanelItem {
    int64_t image, group, panel, chunk;

    INLINE_MEMBER PanelItem(int64_t number, int64_t groups, int64_t panels, int64_t chunks, bool chunks_first) {
        const int64_t filters = groups * panels, either = chunks_first ? number % filters : number / chunks % filters;
        image = number / (chunks * filters), chunk = chunks_first ? number / filters % chunks : number % chunks;
        group = either / panels, panel = either % panels;
    }
};

} // namespace dovetail_acc::ACC_ISA
