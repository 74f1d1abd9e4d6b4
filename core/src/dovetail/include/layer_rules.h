/* What a backend takes, as a table: the claims of its manifest (claims.py), for a `supports` written in C or C++.
 *
 *     static const dovetail_rule CONVOLUTION[] = {
 *         {"layout", "NHWC"}, {"stride", DOVETAIL_NUMBER, 1, 2}, {"input.channels", DOVETAIL_NUMBER, 8, INT64_MAX, 8},
 *         {"bias.dtype", "int32, none"},
 *     };
 *     return dovetail_obeys(layer, CONVOLUTION, 4, why);
 *
 * Quantities are those of the claims: the name of an attribute (of a list every element must fit), or <slot>.<what>. A slot is
 * `output`, or an input by its name: input or a, weights or b, bias. `what` is rank, elements, dtype, constant, quantization, an
 * axis by number, or batch (filters), channels, height, width by the attribute `layout`. What a layer does not have reads "none"
 * and fits no number.
 */
#ifndef DOVETAIL_LAYER_RULES_H
#define DOVETAIL_LAYER_RULES_H

#include <stdlib.h>

#include "layer_view.h"

#define DOVETAIL_NUMBER NULL

typedef struct {
    const char *quantity;
    const char *words;          /* those allowed, with ", " between them; DOVETAIL_NUMBER: numbers within the limits */
    int64_t least, most;        /* both inclusive */
    int64_t multiple;           /* 0 and 1: of any */
    int64_t small;              /* numbers from 1 to this are taken, too */
} dovetail_rule;

enum { DOVETAIL_TEXT = 96 };    /* bytes that hold the text of one value */

/* Axis of an image or of weights by its name or number; -1 if there is none. */
static inline int dovetail_rule_axis(const dovetail_layer *layer, const char *name, int32_t rank)
{
    static const char *const NAMES[] = {"batch", "filters", "channels", "height", "width"};
    static const int NCHW[] = {0, 0, 1, 2, 3}, NHWC[] = {0, 0, 3, 1, 2};
    const char *layout = dovetail_string(&layer->attributes, "layout", NULL);
    int axis = -1;
    if (name[0] >= '0' && name[0] <= '9') {
        axis = atoi(name);
    }
    for (int i = 0; i < 5 && layout && rank == 4; i++) {
        if (strcmp(name, NAMES[i]) == 0) {
            axis = strcmp(layout, "NHWC") == 0 ? NHWC[i] : NCHW[i];
        }
    }
    return axis < rank ? axis : -1;
}

static inline void dovetail_dtype_text(dovetail_dtype dtype, char text[DOVETAIL_TEXT])
{
    static const char *const NAMES[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
    if (dtype.code >= 6) {
        snprintf(text, DOVETAIL_TEXT, "%s", dtype.code == 6 ? "bool" : "unknown");
    } else {
        snprintf(text, DOVETAIL_TEXT, "%s%d", NAMES[dtype.code], dtype.bits);
    }
}

/* Read value `index` of a quantity as text; returns how many values there are, 0 with the text "none" if it is not there. */
static inline int64_t dovetail_quantity(const dovetail_layer *layer, const char *quantity, int64_t index, char text[DOVETAIL_TEXT])
{
    const char *dot = strchr(quantity, '.'), *what = dot ? dot + 1 : "";
    const size_t n = dot ? (size_t)(dot - quantity) : strlen(quantity);
    snprintf(text, DOVETAIL_TEXT, "none");
    if (!dot) {
        const dovetail_attribute *value = dovetail_attribute_named(&layer->attributes, quantity);
        if (!value || index >= value->count) {
            return value ? value->count : 0;
        }
        if (value->strings) {
            snprintf(text, DOVETAIL_TEXT, "%s", value->strings[index]);
        } else if (value->reals) {
            snprintf(text, DOVETAIL_TEXT, "%g", value->reals[index]);
        } else if (value->integers && value->type == DOVETAIL_ATTRIBUTE_BOOL) {
            snprintf(text, DOVETAIL_TEXT, "%s", value->integers[index] ? "true" : "false");
        } else if (value->integers) {
            snprintf(text, DOVETAIL_TEXT, "%lld", (long long)value->integers[index]);
        }
        return value->count;
    }
#define DOVETAIL_IS_SLOT(name) (n == sizeof(name) - 1 && strncmp(quantity, name, n) == 0)
    const int input = DOVETAIL_IS_SLOT("input") || DOVETAIL_IS_SLOT("a")     ? 0
                      : DOVETAIL_IS_SLOT("weights") || DOVETAIL_IS_SLOT("b") ? 1
                      : DOVETAIL_IS_SLOT("bias")                             ? 2
                                                                             : layer->n_inputs;
    const dovetail_tensor_info *info = DOVETAIL_IS_SLOT("output") ? layer->outputs[0]
                                       : input < layer->n_inputs  ? layer->inputs[input]
                                                                  : NULL;
#undef DOVETAIL_IS_SLOT
    if (!info) {
        return 0;
    }
    if (strcmp(what, "dtype") == 0) {
        dovetail_dtype_text(info->dtype, text);
    } else if (strcmp(what, "constant") == 0) {
        snprintf(text, DOVETAIL_TEXT, "%s", info->constant ? "true" : "false");
    } else if (strcmp(what, "quantization") == 0) {
        snprintf(text, DOVETAIL_TEXT, "%s", !info->scales ? "none" : info->axis < 0 ? "per_tensor" : "per_axis");
    } else {
        const int axis = dovetail_rule_axis(layer, what, info->ndim);
        long long value = info->ndim;
        if (strcmp(what, "elements") == 0) {
            value = dovetail_elements(info->ndim, info->shape);
        } else if (strcmp(what, "rank") != 0) {
            if (axis < 0) {
                return 0;
            }
            value = info->shape[axis];
        }
        snprintf(text, DOVETAIL_TEXT, "%lld", value);
    }
    return 1;
}

static inline int dovetail_rule_fits(const dovetail_rule *rule, const char *text)
{
    if (rule->words) {
        const size_t n = strlen(text);
        for (const char *word = rule->words; word; word = strstr(word, ", ") ? strstr(word, ", ") + 2 : NULL) {
            if (strncmp(word, text, n) == 0 && (word[n] == 0 || word[n] == ',')) {
                return 1;
            }
        }
        return 0;
    }
    char *end;
    const double number = strtod(text, &end);   /* exact for every size that a tensor can have */
    if (*end) {
        return 0;
    }
    const int within = number >= (double)rule->least && number <= (double)rule->most
                       && (rule->multiple <= 1 || (int64_t)number % rule->multiple == 0);
    return within || (number >= 1 && number <= (double)rule->small);
}

/* Say what a rule takes. */
static inline void dovetail_rule_text(const dovetail_rule *rule, char text[DOVETAIL_TEXT])
{
    int n;
    if (rule->words) {
        snprintf(text, DOVETAIL_TEXT, "%s", rule->words);
        return;
    }
    if (rule->most == rule->least) {
        n = snprintf(text, DOVETAIL_TEXT, "%lld", (long long)rule->least);
    } else if (rule->most == INT64_MAX) {
        n = snprintf(text, DOVETAIL_TEXT, "at least %lld", (long long)rule->least);
    } else {
        n = snprintf(text, DOVETAIL_TEXT, "%lld to %lld", (long long)rule->least, (long long)rule->most);
    }
    if (rule->multiple > 1) {
        n += snprintf(text + n, DOVETAIL_TEXT - (size_t)n, " and a multiple of %lld", (long long)rule->multiple);
    }
    if (rule->small) {
        snprintf(text + n, DOVETAIL_TEXT - (size_t)n, ", or 1 to %lld", (long long)rule->small);
    }
}

/* 1 if a layer obeys all of the rules; else 0, and `why` says which one it breaks: what was found, what would be taken. */
static inline int dovetail_obeys(const dovetail_layer *layer, const dovetail_rule *rules, size_t count, dovetail_answer *why)
{
    char text[DOVETAIL_TEXT], found[4 * DOVETAIL_TEXT];
    for (const dovetail_rule *rule = rules; rule < rules + count; rule++) {
        int64_t i = 0, values = 1;
        int fits = 1;
        size_t end = 0;
        for (; i < values; i++) {
            const int64_t n = dovetail_quantity(layer, rule->quantity, i, text);
            values = n > 0 ? n : 1;
            fits = fits && dovetail_rule_fits(rule, text);
            if (end < sizeof found) {
                end += (size_t)snprintf(found + end, sizeof found - end, "%s%s", i ? ", " : "", text);
            }
        }
        if (fits) {
            continue;
        }
        const char *dot = strchr(rule->quantity, '.'), *what = dot ? dot + 1 : "";
        const int named = strcmp(what, "dtype") == 0 || strcmp(what, "quantization") == 0 || strcmp(what, "constant") == 0;
        dovetail_rule_text(rule, text);
        char subject[sizeof why->subject];
        snprintf(subject, sizeof subject, "%.*s", (int)(dot ? dot - rule->quantity : (long)sizeof subject - 1), rule->quantity);
        return dovetail_refuse(why, !dot ? "attribute" : named ? what : "shape", subject, "%s is %s; it takes %s", rule->quantity,
                               found, text);
    }
    return 1;
}

#endif
