#include "double.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

long builds, restores;

static const char magic[] = "double's binary\n";

static cl_program new_program(const char *source, size_t length)
{
    cl_program program = made(PROGRAM, sizeof(struct _cl_program));
    program->source = calloc(1, length + 1);
    memcpy(program->source, source, length);
    program->log = "";
    return program;
}

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char **sources, const size_t *lengths, cl_int *code)
{
    (void)context, (void)count;
    *code = CL_SUCCESS;
    return new_program(sources[0], lengths[0]);
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id *devices, const size_t *lengths,
                                     const unsigned char **contents, cl_int *status, cl_int *code)
{
    (void)context, (void)count, (void)devices;
    size_t head = strlen(magic);
    if (fault("stale") || lengths[0] < head || memcmp(contents[0], magic, head) != 0) {
        *status = *code = CL_INVALID_BINARY;
        return NULL;
    }
    *status = *code = CL_SUCCESS;
    restores++;
    cl_program program = new_program((const char *)contents[0] + head, lengths[0] - head);
    program->is_built = 1;
    return program;
}

static void ignore(int number)
{
    (void)number;
}

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options, void *callback,
                      void *given)
{
    (void)count, (void)devices, (void)options, (void)callback, (void)given;
    if (fault("handlers")) {
        signal(SIGINT, ignore);
        signal(SIGSEGV, SIG_IGN);
    }
    if (program->is_built) {
        return CL_SUCCESS;
    }
    builds++;
    const char *refused = fault("build_error");
    if (refused && (!*refused || strstr(program->source, refused))) {
        program->log = "<source>:1:1: error: the double does not like it";
        return CL_BUILD_PROGRAM_FAILURE;
    }
    program->is_built = 1;
    return CL_SUCCESS;
}

cl_int clRetainProgram(cl_program program)
{
    retain(program, PROGRAM);
    return CL_SUCCESS;
}

cl_int clReleaseProgram(cl_program program)
{
    if (is_last(program, PROGRAM)) {
        free(program->source);
        free(program);
    }
    return CL_SUCCESS;
}

cl_int clGetProgramInfo(cl_program program, cl_uint name, size_t size, void *value, size_t *needed)
{
    size_t head = strlen(magic), length = head + strlen(program->source);
    if (name == CL_PROGRAM_BINARY_SIZES) {
        return told(&length, sizeof(length), size, value, needed);
    }
    unsigned char *target = *(unsigned char **)value;
    memcpy(target, magic, head);
    memcpy(target + head, program->source, length - head);
    return CL_SUCCESS;
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_uint name, size_t size, void *value, size_t *needed)
{
    (void)device, (void)name;
    return text(program->log, size, value, needed);
}
