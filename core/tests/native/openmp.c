/* ReLU by a pool that is not the core's: OpenMP, bounded by the threads that the host lends.
 * -fopenmp */
#include <layer_view.h>
#include <omp.h>
#include <stdlib.h>

static int seen;        /* threads of the last region */

int threads_seen(void) { return seen; }

static int execute(void *state, const dovetail_call *call)
{
    const int threads = *(const int *)state;    /* of dovetail_resources, when the workload was made */
    const float *in = dovetail_data(&call->inputs[0]);
    float *out = dovetail_data(&call->outputs[0]);
    const int64_t elements = dovetail_elements(call->outputs[0].ndim, call->outputs[0].shape);
#pragma omp parallel for num_threads(threads)
    for (int64_t i = 0; i < elements; ++i) {
        out[i] = in[i] > 0 ? in[i] : 0;
        if (i == 0)
            seen = omp_get_num_threads();
    }
    return DOVETAIL_OK;
}

static int create_workload(void *state, void *context, const dovetail_layer *layer, const dovetail_resources *resources,
                           const dovetail_attributes *options, dovetail_workload *workload, dovetail_answer *why)
{
    (void)state, (void)context, (void)layer, (void)options;
    int *threads = malloc(sizeof *threads);
    if (threads == NULL)
        return dovetail_fail(why, "memory", "", "no memory for a number");
    *threads = resources->threads;
    dovetail_begin_workload(workload);
    workload->state = threads;
    workload->execute = execute;
    workload->release = free;
    return DOVETAIL_OK;
}

static int supports(void *state, const dovetail_device_info *device, const dovetail_layer *layer,
                    const dovetail_attributes *options, dovetail_answer *why)
{
    (void)state, (void)device, (void)options;
    if (!dovetail_is_kind(layer, "dovetail.Activation") || !dovetail_is_dtype(layer->inputs[0], 2, 32))
        return dovetail_refuse(why, "kind", "", "only ReLU of float32");
    return 1;
}

int DOVETAIL_OPEN_BACKEND(const dovetail_backend_host *host, dovetail_backend *table, dovetail_answer *why)
{
    (void)host, (void)why;
    dovetail_begin_backend(table, "OpenMp", "1");
    table->supports = supports;
    table->create_workload = create_workload;
    return DOVETAIL_OK;
}
