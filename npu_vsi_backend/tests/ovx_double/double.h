/* A double of VeriSilicon's libraries, ovxlib and OpenVX in one file, for what goes wrong in them.
 *
 * It compiles a graph to a file laid out as NBG is, with the tables of inputs and outputs and the
 * number of nodes. A run gives for output k the elements of input k (of as many as there are, in
 * turn), over and over, each greater by the number of nodes, modulo 256. The device has memory of
 * its own: what is not flushed does not get there, and what is not invalidated does not come back.
 *
 * Calls, nodes, and objects that are made (+) and released (-) are lines of the file that the
 * environment variable DOVETAIL_DOUBLE_LOG names. Faults are words in DOVETAIL_DOUBLE:
 *
 *   fail=FUNCTION      it fails: by NULL, an id or a truth that says so, or a status
 *   status=NUMBER      which; -1 if not given
 *   abort=FUNCTION     it ends the process, as terminate does
 *   hang=FUNCTION      it never returns
 *   version=A.B.C      of ovxlib; 1.2.30 if not given
 *   target=NUMBER      chip of the device; 0x9f if not given
 *   makes=NUMBER       chip that binaries are made for, if it is not the device's
 *   silent             the driver does not know what chip it has
 *   short              the driver is of the time before hardware had several cores
 *   layout             nodes are laid out otherwise
 *   wide               sizes are numbers of 8 bytes
 *   far                the device cannot reach memory that a tensor is given after it was made
 *   takes=NUMBER       microseconds that a run takes at least
 *   untimed            runs are not measured
 *   elsewhen           they are, on a clock that is not the host's
 *   absurd             they take a year
 *   prints             runs print what each operation took
 *   overflow           the binary turns out larger than was announced
 */
#ifndef DOVETAIL_NPU_VSI_DOUBLE_H
#define DOVETAIL_NPU_VSI_DOUBLE_H

#include "ovxlib.h"

#pragma GCC visibility push(hidden)

/* In faults.c. */

/* The text behind a word of DOVETAIL_DOUBLE, empty if there is none; NULL if it was not given. */
const char *fault(const char *word);
/* The number behind a word. */
long number(const char *word, long otherwise);
/* Log a call, and abort or hang if it is to; whether it is to fail. */
int called(const char *function);
/* The status of what fails. */
vx_status failing(void);
/* Write a line of the log. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define CALLED(failure)              \
    do {                             \
        if (called(__func__)) {      \
            return failure;          \
        }                            \
    } while (0)

/* In binaries.c. */

enum { MOST_AXES = 6, MOST_OPERANDS = 32 };

/* An input or output, as NBG has it. */
typedef struct {
    uint32_t rank;
    uint32_t sizes[MOST_AXES];
    uint32_t type;
    uint32_t unknown;
    uint32_t quantization;
    float scale;
    int32_t zero_point;
    char name[64];
} record;

typedef struct {
    uint32_t target;
    uint32_t n_inputs, n_outputs, n_nodes;
    record operands[2 * MOST_OPERANDS];     /* inputs, then outputs */
} program;

/* Bytes of a program's file, which is written if there is a place for it. */
size_t binary_write(const program *written, uint8_t *place);
/* Whether a file could be read. */
int binary_read(program *read, const uint8_t *place);

#pragma GCC visibility pop
#endif
