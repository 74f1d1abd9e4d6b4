/* Conveniences for backends that export a table (see abi.h): read layers, give reasons. Inline, C
 * and C++, no part of the ABI. */
#ifndef DOVETAIL_LAYER_VIEW_H
#define DOVETAIL_LAYER_VIEW_H

#include "abi.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Fill in an answer; the text is cut at its end. Both functions return what their caller may
 * return. */
__attribute__((format(printf, 4, 0))) static inline void dovetail_answer_text(
    dovetail_answer *why, const char *code, const char *subject, const char *format, va_list arguments) {
    snprintf(why->code, sizeof why->code, "%s", code);
    snprintf(why->subject, sizeof why->subject, "%s", subject);
    vsnprintf(why->text, sizeof why->text, format, arguments);
}

/* "No": what `supports` returns for a refusal. */
__attribute__((format(printf, 4, 5), unused)) static inline int dovetail_refuse(
    dovetail_answer *why, const char *code, const char *subject, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dovetail_answer_text(why, code, subject, format, arguments);
    va_end(arguments);
    return 0;
}

/* A failure: what every other function returns, having done nothing. */
__attribute__((format(printf, 4, 5), unused)) static inline int dovetail_fail(
    dovetail_answer *why, const char *code, const char *subject, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dovetail_answer_text(why, code, subject, format, arguments);
    va_end(arguments);
    return strcmp(code, "memory") == 0 ? DOVETAIL_OUT_OF_MEMORY : DOVETAIL_FAILED;
}

static inline int dovetail_is_kind(const dovetail_layer *layer, const char *kind) { return strcmp(layer->kind, kind) == 0; }

/* The attribute of a name, or NULL: an older core does not know a younger attribute. */
static inline const dovetail_attribute *dovetail_attribute_named(const dovetail_attributes *attributes, const char *name) {
    for (int32_t i = 0; i < attributes->count; i++)
        if (strcmp(attributes->items[i]->name, name) == 0) return attributes->items[i];
    return NULL;
}

/* True if an attribute is not given: it is None, or there is none of this name. */
static inline int dovetail_is_none(const dovetail_attributes *attributes, const char *name) {
    const dovetail_attribute *found = dovetail_attribute_named(attributes, name);
    return found == NULL || found->type == DOVETAIL_ATTRIBUTE_NONE;
}

/* Elements of a list, 1 for a scalar, 0 for what is not given. */
static inline int64_t dovetail_count(const dovetail_attributes *attributes, const char *name) {
    const dovetail_attribute *found = dovetail_attribute_named(attributes, name);
    return found == NULL ? 0 : found->count;
}

/* Element `index` of an attribute of integers or bools; a scalar has one element, and `otherwise`
 * is for what is not there. */
static inline int64_t dovetail_integer(const dovetail_attributes *attributes, const char *name, int64_t index, int64_t otherwise) {
    const dovetail_attribute *found = dovetail_attribute_named(attributes, name);
    return found != NULL && found->integers != NULL && index >= 0 && index < found->count ? found->integers[index] : otherwise;
}

/* The same for real numbers; integers are taken too. */
static inline double dovetail_real(const dovetail_attributes *attributes, const char *name, int64_t index, double otherwise) {
    const dovetail_attribute *found = dovetail_attribute_named(attributes, name);
    if (found == NULL || index < 0 || index >= found->count) return otherwise;
    if (found->reals != NULL) return found->reals[index];
    return found->integers != NULL ? (double)found->integers[index] : otherwise;
}

/* The value of an attribute that is a text or an enum. */
static inline const char *dovetail_string(const dovetail_attributes *attributes, const char *name, const char *otherwise) {
    const dovetail_attribute *found = dovetail_attribute_named(attributes, name);
    return found != NULL && found->strings != NULL && found->count > 0 ? found->strings[0] : otherwise;
}

/* True for an element type, as DLPack codes: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool. */
static inline int dovetail_is_dtype(const dovetail_tensor_info *tensor, int code, int bits) {
    return tensor != NULL && tensor->dtype.code == code && tensor->dtype.bits == bits && tensor->dtype.lanes == 1;
}

static inline int dovetail_same_shape(const dovetail_tensor_info *a, const dovetail_tensor_info *b) {
    if (a == NULL || b == NULL || a->ndim != b->ndim) return 0;
    for (int32_t i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i]) return 0;
    return 1;
}

static inline int64_t dovetail_elements(int32_t ndim, const int64_t *shape) {
    int64_t elements = 1;
    for (int32_t i = 0; i < ndim; i++) elements *= shape[i];
    return elements;
}

static inline int64_t dovetail_info_bytes(const dovetail_tensor_info *tensor) {
    return dovetail_elements(tensor->ndim, tensor->shape) * tensor->dtype.bits / 8;
}

/* First element of a tensor in memory that the host may follow. */
static inline void *dovetail_data(const dovetail_tensor *tensor) { return (char *)tensor->data + tensor->byte_offset; }

/* Set what every table has; of devices it has one until something else is said. */
static inline void dovetail_begin_backend(dovetail_backend *table, const char *id, const char *version) {
    table->size = sizeof *table;
    table->abi_major = DOVETAIL_ABI_MAJOR;
    table->abi_minor = DOVETAIL_ABI_MINOR;
    table->id = id;
    table->version = version;
    table->n_devices = 1;
}

/* Set what every workload has. */
static inline void dovetail_begin_workload(dovetail_workload *workload) {
    workload->size = sizeof *workload;
    workload->abi_major = DOVETAIL_ABI_MAJOR;
    workload->abi_minor = DOVETAIL_ABI_MINOR;
}

#endif
