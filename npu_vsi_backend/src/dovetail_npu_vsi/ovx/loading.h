/* Finding the functions of VeriSilicon's libraries. */
#ifndef DOVETAIL_NPU_VSI_LOADING_H
#define DOVETAIL_NPU_VSI_LOADING_H

#include "ovxlib.h"

/* Open a library for good and fill a table from it; 0, or -1 with what the system says, or what
 * the library lacks, in `why`. */
int loading_openvx(openvx *table, const char *path, char *why, size_t room);
int loading_ovxlib(ovxlib *table, const char *path, char *why, size_t room);
/* Which file the functions of a table come from; empty where the system does not know. */
const char *loading_file(const void *function);

#endif
