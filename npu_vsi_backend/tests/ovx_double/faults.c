#include "double.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *fault(const char *word)
{
    const char *words = getenv("DOVETAIL_DOUBLE");
    size_t length = strlen(word);
    while (words && *words) {
        words += strspn(words, " ");
        if (strncmp(words, word, length) == 0 && (words[length] == '=' || words[length] == ' ' || !words[length])) {
            static char text[64];
            const char *from = words + length + (words[length] == '=');
            snprintf(text, sizeof(text), "%.*s", (int)strcspn(from, " "), from);
            return text;
        }
        words += strcspn(words, " ");
    }
    return NULL;
}

long number(const char *word, long otherwise)
{
    const char *text = fault(word);
    return text ? strtol(text, NULL, 0) : otherwise;
}

static int is_named(const char *word, const char *function)
{
    const char *text = fault(word);
    return text && strcmp(text, function) == 0;
}

int called(const char *function)
{
    note("%s", function);
    if (is_named("abort", function)) {
        fprintf(stderr, "the double ends in %s\n", function);
        abort();
    }
    while (is_named("hang", function)) {
        pause();
    }
    return is_named("fail", function);
}

vx_status failing(void)
{
    return (vx_status)number("status", -1);
}

void note(const char *format, ...)
{
    const char *path = getenv("DOVETAIL_DOUBLE_LOG");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        va_list more;
        va_start(more, format);
        vfprintf(file, format, more);
        va_end(more);
        fputc('\n', file);
        fclose(file);
    }
}
