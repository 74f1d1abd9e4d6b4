#include "queue_state.h"

#include <stdio.h>
#include <string.h>

cl_mem queue_reports(queue *queue)
{
    queue->is_reporting = 1;
    return queue->reports;
}

int32_t queue_step(queue *queue, const char *text)
{
    int32_t at = queue->n_steps < MAX_STEPS ? queue->n_steps++ : MAX_STEPS - 1;
    queue->steps[at] = text;
    return at + 1;
}

void reports_clear(queue *queue)
{
    static const cl_int zeros[REPORT_WORDS] = {0};
    if (queue->is_reporting) {
        queue->device->cl->clEnqueueWriteBuffer(queue->commands, queue->reports, 0, 0, sizeof(zeros), zeros, 0, NULL, NULL);
        memset(queue->words, 0, sizeof(queue->words));
    }
    queue->is_reporting = 0;
    queue->n_steps = 0;
}

int reports_read(queue *queue)
{
    if (!queue->words[0]) {
        queue->is_reporting = 0;
        queue->n_steps = 0;
        return DOVETAIL_OK;
    }
    int32_t step = queue->words[0] - 1;
    snprintf(queue->text, sizeof(queue->text), "%s: index %d is out of range",
             step >= 0 && step < queue->n_steps ? queue->steps[step] : "a layer", queue->words[1]);
    reports_clear(queue);
    return DOVETAIL_FAILED;
}
