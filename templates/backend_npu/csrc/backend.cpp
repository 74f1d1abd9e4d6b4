// The table that the core gets. No exception leaves it.
#include "device.h"

namespace npu {

using dovetail::as;
using dovetail::guarded;
using Answer = dovetail_answer *;
using Asked = const dovetail_device_info *;
using Resources = const dovetail_resources *;
using Made = dovetail_workload *;
using Compiled = std::shared_ptr<const Program>;    // the workloads that were made of it share it

// A layer may fill a quarter of the memory: other layers of its part need theirs. Claims cannot add
// up bytes.
static void require_room(const dovetail_device_info &device, const dovetail_layer &layer) {
    int64_t bytes = 0;
    for (int i = 0; i < layer.n_inputs; i++) {
        if (layer.inputs[i]) bytes += dovetail_info_bytes(layer.inputs[i]);
    }
    for (int i = 0; i < layer.n_outputs; i++) bytes += dovetail_info_bytes(layer.outputs[i]);
    const int64_t most = int64_t(device.memory_bytes / 4);
    if (bytes > most)
        throw dovetail::Refusal(0, "memory", "its tensors take " + std::to_string(bytes) + " bytes; " + device.name +
                                             " has room for " + std::to_string(most));
}

static dovetail::Artefact artefact() { return dovetail::Artefact(versions()); }

// -- workloads

Run::Run(const Workload &workload)
    : workload(workload), scratch(workload.device.allocate(workload.program->header().scratch)),
      tensors(workload.program->header().tensors) {
    for (size_t i = 0; i < tensors.size(); i++) {
        tensors[i] = workload.device.resolve(scratch, 1) + workload.program->tensors()[i].offset;
    }
}

static int enqueue(void *state, const dovetail_call *call) {
    const Workload &workload = as<Workload>(state);
    Run &run = as<Run>(call->run_data);
    for (int i = 0; i < int(run.tensors.size()); i++) {
        const Tensor &tensor = workload.program->tensors()[i];
        if (tensor.place == Place::SCRATCH) continue;
        const dovetail_tensor &given = (tensor.place == Place::INPUT ? call->inputs : call->outputs)[tensor.index];
        const uint64_t address = reinterpret_cast<uint64_t>(given.data) + given.byte_offset;
        const bool on_host = i == workload.host_tensor;
        run.tensors[i] = on_host ? reinterpret_cast<int8_t *>(address) : workload.device.resolve(address, tensor.bytes);
        if (!run.tensors[i]) return call->host->fail(call, DOVETAIL_FAILED, "a tensor does not lie in the memory of the NPU");
    }
    run.call = call;
    as<Queue>(call->queue).enqueue(&run);
    return DOVETAIL_OK;
}

static void describe(void *context, Compiled program, int host_tensor, dovetail_workload *workload) {
    dovetail::describe(workload, new Workload{as<Device>(context), program, host_tensor}, enqueue);
    workload->flags = DOVETAIL_WORKLOAD_ASYNC;
    workload->private_bytes = program->bytes.size() + program->header().scratch;   // the scratch memory of one run
    workload->create_run = [](void *state, void *, void **run) {
        return guarded(nullptr, [&] { *run = new Run(as<Workload>(state)); });
    };
    workload->release_run = [](void *, void *run) { delete &as<Run>(run); };
}

static int64_t compilations = 0;    // since the library was opened, for tests: what only asks compiles nothing

// What a part becomes, in words for `dovetail explain`.
static std::string words_for(const dovetail_subgraph &part) {
    return "one program of " + std::to_string(part.n_layers) + (part.n_layers == 1 ? " command" : " commands");
}

static void describe_compiling(dovetail_backend *table) {
    table->supports = [](void *, Asked device, const dovetail_layer *layer, Attributes, Answer why) {
        return guarded(why, [&] {
            require_room(*device, *layer);
            return 1;
        });
    };
    table->claim_subgraph = [](void *, Asked, const dovetail_subgraph *part, Attributes, Answer answer) {
        return dovetail::explain(answer, DOVETAIL_OK, "", "", words_for(*part));
    };
    table->compile_subgraph = [](void *, Asked, const dovetail_subgraph *part, Resources, Attributes options,
                                 const dovetail_progress *progress, void **compiled, Answer why) {
        return guarded(why, [&] {
            compilations++;
            *compiled = new Compiled(new Program(compile(*part, options, progress)));
        });
    };
    table->compiled_release = [](void *, void *compiled) { delete &as<Compiled>(compiled); };
    table->artefact_save = [](void *, void *compiled, dovetail_write write, void *sink, Answer why) {
        return guarded(why, [&] {
            const std::string bytes = artefact().pack(as<Compiled>(compiled)->bytes);
            return write(sink, bytes.data(), bytes.size());
        });
    };
    table->artefact_check = [](void *, Asked, const void *bytes, size_t count, Answer why) {
        return guarded(why, [&] { return artefact().check(bytes, count, why); });
    };
    table->artefact_load = [](void *, Asked, Resources, const void *bytes, size_t count, void **compiled, Answer why) {
        return guarded(why, [&] { *compiled = new Compiled(new Program{artefact().unpack(bytes, count)}); });
    };
}

static void describe_workloads(dovetail_backend *table) {
    table->create_compiled_workload = [](void *, void *context, void *compiled, Resources, Attributes, Made made, Answer why) {
        return guarded(why, [&] { describe(context, as<Compiled>(compiled), -1, made); });
    };
    table->create_copy = [](void *, void *context, int32_t source, int32_t, const Info *tensor, Made made, Answer why) {
        return guarded(why, [&] {
            const uint64_t bytes = dovetail_info_bytes(tensor);
            Instruction step{};
            step.opcode = Opcode::COPY;
            step.output = 1;
            step.in[CHANNELS] = int32_t(bytes);
            const std::vector<Tensor> tensors = {{Place::INPUT, 0, 0, bytes}, {Place::OUTPUT, 0, 0, bytes}};
            const auto program = std::make_shared<Program>(assemble(tensors, {step}, std::string("copy", 5), 0));
            describe(context, program, source == DOVETAIL_HOST_MEMORY ? 0 : 1, made);
        });
    };
}

// -- the device

static void describe_device(dovetail_backend *table) {
    table->n_devices = int32_t(DEVICES.size());
    table->device_info = [](void *, int32_t device, dovetail_device_info *info, Answer) {
        *info = DEVICES[device];
        return int{DOVETAIL_OK};
    };
    table->device_state = [](void *, int32_t, Answer why) { return guarded(why, [&] { return device_state(nullptr, why); }); };
    table->context_open = [](void *, int32_t device, Resources, Attributes options, void **context, Answer why) {
        return guarded(why, [&] {
            if (device_state(options, why) != DOVETAIL_DEVICE_READY) {
                throw dovetail::Refusal(DOVETAIL_FAILED, why->code, why->text);
            }
            *context = new Device(DEVICES[device], options);
        });
    };
    table->context_close = [](void *, void *context) { delete &as<Device>(context); };
    table->memory = [](void *, int32_t, int32_t index, dovetail_memory *memory, Answer) {
        *memory = {sizeof *memory, "sram", 64, 1, 0};
        return index;   // there is one
    };
    table->memory_allocate = [](void *, void *context, int32_t, size_t bytes, size_t, void **data, Answer why) {
        return guarded(why, [&] { *data = reinterpret_cast<void *>(as<Device>(context).allocate(bytes)); });
    };
    table->memory_release = [](void *, void *context, int32_t, void *data) {
        as<Device>(context).release(reinterpret_cast<uint64_t>(data));
    };
    table->queues = [](void *, void *context, dovetail_queues *queues, Answer) {
        dovetail::describe<Queue>(queues, context);
        return int{DOVETAIL_OK};
    };
}

}  // namespace npu

extern "C" __attribute__((visibility("default")))
int DOVETAIL_OPEN_BACKEND(const dovetail_backend_host *, dovetail_backend *table, dovetail_answer *) {
    dovetail::describe(table, DOVETAIL_BACKEND_ID, DOVETAIL_BACKEND_VERSION,
                       DOVETAIL_BACKEND_DETERMINISTIC | DOVETAIL_BACKEND_ASYNC, npu::OPTIONS);
    table->extension = [](void *, const char *name) -> const void * {
        return std::strcmp(name, "acme.compilations") == 0 ? &npu::compilations : nullptr;
    };
    npu::describe_compiling(table);
    npu::describe_workloads(table);
    npu::describe_device(table);
    return DOVETAIL_OK;
}
