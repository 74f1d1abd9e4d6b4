/* A double of libOpenCL, for what goes wrong in drivers: one platform with one device, which has
 * its memory in the host's and carries out every command when it is enqueued.
 *
 * A kernel copies its first buffer to its last one: as many elements of 4 bytes as its last number
 * says. That is what ReLU does to positive numbers.
 *
 * Faults are words in the environment variable DOVETAIL_DOUBLE, or in what was last given to
 * double_set. Commands and buffers are counted from there, from 0.
 *
 *   no_platform, no_device, no_compiler
 *   build_error          the compiler refuses everything; with =WORD: sources that hold the word
 *   driver=VERSION       another version of the driver
 *   stale                binaries are refused
 *   memory=N             buffer N cannot be had
 *   lost=N               the context is lost with command N; a new one works
 *   late=N               command N fails on the device: the next event says so
 *   hang=N               command N never ends, nor do those behind it, until double_go_on
 *   slow                 events complete a little later, on a thread of the driver
 *   unified              device and host share memory
 *   no_queued            events do not know when they were enqueued
 *   shadow               buffers of the host's memory are copies, which mapping brings up to date
 *   refused              no buffer can be made of the host's memory
 *   handlers             building sets handlers for signals
 */
#ifndef DOVETAIL_CL_DOUBLE_H
#define DOVETAIL_CL_DOUBLE_H

#include "entries.h"

#include <pthread.h>

/* For the tests. */

/* Take other faults, and count commands and buffers anew. */
void double_set(const char *text);
/* End what hangs, and take all faults back. */
void double_go_on(void);
/* How many objects of a kind there are; else "builds", "restores", "bytes_in" and "bytes_out",
 * which crossed to the device and back, or "violations": buffers that were released while a command
 * that hangs used them. */
long double_count(const char *what);

/* For each other. */
#pragma GCC visibility push(hidden)

enum { CONTEXT, QUEUE, BUFFER, PROGRAM, KERNEL, EVENT, KINDS };

typedef struct {
    int kind;
    int references;
} object;

struct _cl_context {
    object base;
    int is_lost;
};

struct _cl_command_queue {
    object base;
    cl_context context;
    int takes_times;
    int is_hanging;
    cl_int late;                /* status that the next event gets */
};

struct _cl_mem {
    object base;
    struct _cl_mem *next;
    size_t size;
    unsigned char *bytes;
    int is_owned;
    unsigned char *shown;       /* the host's memory, where `bytes` is a copy of it */
    size_t mapped_at, mapped;
    cl_bitfield mapped_for;
    int in_flight;              /* commands that use it and hang */
};

struct _cl_program {
    object base;
    char *source;
    int is_built;
    const char *log;
};

typedef struct {
    size_t size;
    unsigned char value[256];
} argument;

struct _cl_kernel {
    object base;
    cl_program program;
    argument arguments[32];
    cl_uint n_arguments;
};

struct _cl_event {
    object base;
    struct _cl_event *next;     /* of those that hang */
    cl_int status;
    int64_t queued, began, ended;       /* on the device's clock; 0: its queue takes no times */
    opencl_event_callback callback;
    void *given;
};

/* Held while objects, counts, or lists of objects are read or changed. */
extern pthread_mutex_t lock;

/* In faults.c. */

extern char faults[256];
/* The text behind a word, empty if there is none; NULL if the word was not given. */
const char *fault(const char *word);
/* Whether a word was given with this number. */
int is_due(const char *word, long number);

/* In objects.c. */

extern long live[KINDS];
/* End the process, as the backend does what OpenCL forbids. */
void wrong(const char *what);
void *made(int kind, size_t size);
void retain(void *handle, int kind);
/* Whether it was the last reference; the caller frees what it owns, then the object. */
int is_last(void *handle, int kind);
/* Answer a question of the kind clGet...Info: some bytes, a text, a number. */
cl_int told(const void *content, size_t length, size_t size, void *value, size_t *needed);
cl_int text(const char *content, size_t size, void *value, size_t *needed);
cl_int number(uint64_t content, size_t size, void *value, size_t *needed);

/* In queues.c. */

extern long commands;           /* since faults were last set */
/* Whether a command is carried out: else *code is what it answers, or it hangs with its buffers. */
int begins(cl_command_queue queue, cl_mem one, cl_mem other, cl_int *code);

/* In events.c. */

extern cl_event hanging;        /* the last of those that do, with the one before as its `next` */
/* Give the event of a command that was enqueued, if it is wanted; CL_SUCCESS. */
cl_int put_event(cl_command_queue queue, cl_event *made_event);

/* In buffers.c. */

extern cl_mem first_buffer;
extern long buffers;            /* since faults were last set */
extern long violations, bytes_in, bytes_out;
/* Where some bytes of a buffer lie; the double ends the process where they are not within it. */
unsigned char *place(cl_mem buffer, size_t offset, size_t bytes);

/* In programs.c. */

extern long builds, restores;

#pragma GCC visibility pop
#endif
