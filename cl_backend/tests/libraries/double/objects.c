#include "double.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[KINDS] = {"context", "queue", "buffer", "program", "kernel", "event"};

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long live[KINDS];

void wrong(const char *what)
{
    fprintf(stderr, "the double of OpenCL: %s\n", what);
    abort();
}

void *made(int kind, size_t size)
{
    object *one = calloc(1, size);
    if (!one) {
        wrong("no memory");
    }
    one->kind = kind;
    one->references = 1;
    pthread_mutex_lock(&lock);
    live[kind]++;
    pthread_mutex_unlock(&lock);
    return one;
}

void retain(void *handle, int kind)
{
    object *one = handle;
    pthread_mutex_lock(&lock);
    if (!one || one->kind != kind || one->references++ < 1) {
        wrong("something was retained that is not there");
    }
    pthread_mutex_unlock(&lock);
}

int is_last(void *handle, int kind)
{
    object *one = handle;
    pthread_mutex_lock(&lock);
    if (!one || one->kind != kind || one->references < 1) {
        wrong("something was released that is not there");
    }
    int references = --one->references;
    live[kind] -= !references;
    pthread_mutex_unlock(&lock);
    return !references;
}

cl_int told(const void *content, size_t length, size_t size, void *value, size_t *needed)
{
    if (needed) {
        *needed = length;
    }
    if (value) {
        if (size < length) {
            return CL_INVALID_BUFFER_SIZE;
        }
        memset(value, 0, size);
        memcpy(value, content, length);
    }
    return CL_SUCCESS;
}

cl_int text(const char *content, size_t size, void *value, size_t *needed)
{
    return told(content, strlen(content) + 1, size, value, needed);
}

cl_int number(uint64_t content, size_t size, void *value, size_t *needed)
{
    return told(&content, sizeof(content), size, value, needed);
}

long double_count(const char *what)
{
    for (int i = 0; i < KINDS; i++) {
        if (!strcmp(what, names[i])) {
            return live[i];
        }
    }
    if (!strncmp(what, "bytes", 5)) {
        return strcmp(what, "bytes_in") ? bytes_out : bytes_in;
    }
    return !strcmp(what, "builds") ? builds : !strcmp(what, "restores") ? restores : violations;
}
