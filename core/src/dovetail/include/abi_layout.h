/* Sizes and offsets of every struct of abi.h where pointers have 64 bits: what has been published
 * stays where it is.
 *
 * Included at the end of abi.h. A field that is appended gets a line here, and its struct another
 * size; no other line ever changes while the major lives.
 */
#ifndef DOVETAIL_ABI_LAYOUT_H
#define DOVETAIL_ABI_LAYOUT_H

#if UINTPTR_MAX == UINT64_MAX
#define DOVETAIL_SIZE(type, bytes) DOVETAIL_STATIC_ASSERT(sizeof(type) == (bytes), #type " must have " #bytes " bytes")
#define DOVETAIL_AT(type, field, offset) \
    DOVETAIL_STATIC_ASSERT(offsetof(type, field) == (offset), #type "." #field " must lie at " #offset)

DOVETAIL_SIZE(dovetail_device, 8);
DOVETAIL_AT(dovetail_device, device_type, 0);
DOVETAIL_AT(dovetail_device, device_id, 4);

DOVETAIL_SIZE(dovetail_dtype, 4);
DOVETAIL_AT(dovetail_dtype, code, 0);
DOVETAIL_AT(dovetail_dtype, bits, 1);
DOVETAIL_AT(dovetail_dtype, lanes, 2);

DOVETAIL_SIZE(dovetail_tensor, 48);
DOVETAIL_AT(dovetail_tensor, data, 0);
DOVETAIL_AT(dovetail_tensor, device, 8);
DOVETAIL_AT(dovetail_tensor, ndim, 16);
DOVETAIL_AT(dovetail_tensor, dtype, 20);
DOVETAIL_AT(dovetail_tensor, shape, 24);
DOVETAIL_AT(dovetail_tensor, strides, 32);
DOVETAIL_AT(dovetail_tensor, byte_offset, 40);

DOVETAIL_SIZE(dovetail_host, 56);
DOVETAIL_AT(dovetail_host, size, 0);
DOVETAIL_AT(dovetail_host, abi_major, 8);
DOVETAIL_AT(dovetail_host, abi_minor, 12);
DOVETAIL_AT(dovetail_host, parallel_for, 16);
DOVETAIL_AT(dovetail_host, is_cancelled, 24);
DOVETAIL_AT(dovetail_host, fail, 32);
DOVETAIL_AT(dovetail_host, profile_mark, 40);
DOVETAIL_AT(dovetail_host, extension, 48);

DOVETAIL_SIZE(dovetail_call, 104);
DOVETAIL_AT(dovetail_call, size, 0);
DOVETAIL_AT(dovetail_call, host, 8);
DOVETAIL_AT(dovetail_call, context, 16);
DOVETAIL_AT(dovetail_call, inputs, 24);
DOVETAIL_AT(dovetail_call, outputs, 32);
DOVETAIL_AT(dovetail_call, n_inputs, 40);
DOVETAIL_AT(dovetail_call, n_outputs, 44);
DOVETAIL_AT(dovetail_call, workspace, 48);
DOVETAIL_AT(dovetail_call, worker_workspace, 56);
DOVETAIL_AT(dovetail_call, worker_stride, 64);
DOVETAIL_AT(dovetail_call, run_data, 72);
DOVETAIL_AT(dovetail_call, queue, 80);
DOVETAIL_AT(dovetail_call, workers, 88);
DOVETAIL_AT(dovetail_call, flags, 92);
DOVETAIL_AT(dovetail_call, workspace_offset, 96);

DOVETAIL_SIZE(dovetail_alias, 24);
DOVETAIL_AT(dovetail_alias, relation, 0);
DOVETAIL_AT(dovetail_alias, output, 4);
DOVETAIL_AT(dovetail_alias, input, 8);
DOVETAIL_AT(dovetail_alias, reserved, 12);
DOVETAIL_AT(dovetail_alias, offset, 16);

DOVETAIL_SIZE(dovetail_workload, 104);
DOVETAIL_AT(dovetail_workload, size, 0);
DOVETAIL_AT(dovetail_workload, abi_major, 8);
DOVETAIL_AT(dovetail_workload, abi_minor, 12);
DOVETAIL_AT(dovetail_workload, flags, 16);
DOVETAIL_AT(dovetail_workload, concurrency, 20);
DOVETAIL_AT(dovetail_workload, state, 24);
DOVETAIL_AT(dovetail_workload, execute, 32);
DOVETAIL_AT(dovetail_workload, release, 40);
DOVETAIL_AT(dovetail_workload, workspace, 48);
DOVETAIL_AT(dovetail_workload, create_run, 56);
DOVETAIL_AT(dovetail_workload, release_run, 64);
DOVETAIL_AT(dovetail_workload, aliases, 72);
DOVETAIL_AT(dovetail_workload, n_aliases, 80);
DOVETAIL_AT(dovetail_workload, workspace_memory, 84);
DOVETAIL_AT(dovetail_workload, private_bytes, 88);
DOVETAIL_AT(dovetail_workload, snapshot, 96);

DOVETAIL_SIZE(dovetail_span, 40);
DOVETAIL_AT(dovetail_span, size, 0);
DOVETAIL_AT(dovetail_span, call, 8);
DOVETAIL_AT(dovetail_span, name, 16);
DOVETAIL_AT(dovetail_span, begin, 24);
DOVETAIL_AT(dovetail_span, end, 32);

DOVETAIL_SIZE(dovetail_queues, 96);
DOVETAIL_AT(dovetail_queues, size, 0);
DOVETAIL_AT(dovetail_queues, abi_major, 8);
DOVETAIL_AT(dovetail_queues, abi_minor, 12);
DOVETAIL_AT(dovetail_queues, state, 16);
DOVETAIL_AT(dovetail_queues, queue_create, 24);
DOVETAIL_AT(dovetail_queues, queue_wait, 32);
DOVETAIL_AT(dovetail_queues, queue_abort, 40);
DOVETAIL_AT(dovetail_queues, queue_destroy, 48);
DOVETAIL_AT(dovetail_queues, queue_error, 56);
DOVETAIL_AT(dovetail_queues, release, 64);
DOVETAIL_AT(dovetail_queues, queue_profile, 72);
DOVETAIL_AT(dovetail_queues, queue_span, 80);
DOVETAIL_AT(dovetail_queues, queue_clock, 88);

DOVETAIL_SIZE(dovetail_answer, 1160);
DOVETAIL_AT(dovetail_answer, size, 0);
DOVETAIL_AT(dovetail_answer, code, 8);
DOVETAIL_AT(dovetail_answer, subject, 40);
DOVETAIL_AT(dovetail_answer, text, 136);

DOVETAIL_SIZE(dovetail_attribute, 64);
DOVETAIL_AT(dovetail_attribute, size, 0);
DOVETAIL_AT(dovetail_attribute, name, 8);
DOVETAIL_AT(dovetail_attribute, type, 16);
DOVETAIL_AT(dovetail_attribute, since, 20);
DOVETAIL_AT(dovetail_attribute, count, 24);
DOVETAIL_AT(dovetail_attribute, integers, 32);
DOVETAIL_AT(dovetail_attribute, reals, 40);
DOVETAIL_AT(dovetail_attribute, strings, 48);
DOVETAIL_AT(dovetail_attribute, tensor, 56);

DOVETAIL_SIZE(dovetail_attributes, 24);
DOVETAIL_AT(dovetail_attributes, size, 0);
DOVETAIL_AT(dovetail_attributes, items, 8);
DOVETAIL_AT(dovetail_attributes, count, 16);
DOVETAIL_AT(dovetail_attributes, reserved, 20);

DOVETAIL_SIZE(dovetail_tensor_info, 64);
DOVETAIL_AT(dovetail_tensor_info, size, 0);
DOVETAIL_AT(dovetail_tensor_info, id, 8);
DOVETAIL_AT(dovetail_tensor_info, ndim, 12);
DOVETAIL_AT(dovetail_tensor_info, dtype, 16);
DOVETAIL_AT(dovetail_tensor_info, axis, 20);
DOVETAIL_AT(dovetail_tensor_info, shape, 24);
DOVETAIL_AT(dovetail_tensor_info, scales, 32);
DOVETAIL_AT(dovetail_tensor_info, zero_points, 40);
DOVETAIL_AT(dovetail_tensor_info, n_scales, 48);
DOVETAIL_AT(dovetail_tensor_info, reserved, 52);
DOVETAIL_AT(dovetail_tensor_info, constant, 56);

DOVETAIL_SIZE(dovetail_layer, 80);
DOVETAIL_AT(dovetail_layer, size, 0);
DOVETAIL_AT(dovetail_layer, kind, 8);
DOVETAIL_AT(dovetail_layer, name, 16);
DOVETAIL_AT(dovetail_layer, version, 24);
DOVETAIL_AT(dovetail_layer, n_inputs, 28);
DOVETAIL_AT(dovetail_layer, n_outputs, 32);
DOVETAIL_AT(dovetail_layer, reserved, 36);
DOVETAIL_AT(dovetail_layer, inputs, 40);
DOVETAIL_AT(dovetail_layer, outputs, 48);
DOVETAIL_AT(dovetail_layer, attributes, 56);

DOVETAIL_SIZE(dovetail_subgraph, 48);
DOVETAIL_AT(dovetail_subgraph, size, 0);
DOVETAIL_AT(dovetail_subgraph, layers, 8);
DOVETAIL_AT(dovetail_subgraph, inputs, 16);
DOVETAIL_AT(dovetail_subgraph, outputs, 24);
DOVETAIL_AT(dovetail_subgraph, n_layers, 32);
DOVETAIL_AT(dovetail_subgraph, n_inputs, 36);
DOVETAIL_AT(dovetail_subgraph, n_outputs, 40);
DOVETAIL_AT(dovetail_subgraph, reserved, 44);

DOVETAIL_SIZE(dovetail_option, 24);
DOVETAIL_AT(dovetail_option, size, 0);
DOVETAIL_AT(dovetail_option, value, 8);
DOVETAIL_AT(dovetail_option, description, 16);

DOVETAIL_SIZE(dovetail_kind_version, 24);
DOVETAIL_AT(dovetail_kind_version, size, 0);
DOVETAIL_AT(dovetail_kind_version, kind, 8);
DOVETAIL_AT(dovetail_kind_version, version, 16);
DOVETAIL_AT(dovetail_kind_version, reserved, 20);

DOVETAIL_SIZE(dovetail_memory, 40);
DOVETAIL_AT(dovetail_memory, size, 0);
DOVETAIL_AT(dovetail_memory, kind, 8);
DOVETAIL_AT(dovetail_memory, alignment, 16);
DOVETAIL_AT(dovetail_memory, offsets, 24);
DOVETAIL_AT(dovetail_memory, host_visible, 28);
DOVETAIL_AT(dovetail_memory, images, 32);
DOVETAIL_AT(dovetail_memory, imports_host, 36);

DOVETAIL_SIZE(dovetail_resources, 16);
DOVETAIL_AT(dovetail_resources, size, 0);
DOVETAIL_AT(dovetail_resources, threads, 8);
DOVETAIL_AT(dovetail_resources, reserved, 12);

DOVETAIL_SIZE(dovetail_progress, 24);
DOVETAIL_AT(dovetail_progress, size, 0);
DOVETAIL_AT(dovetail_progress, context, 8);
DOVETAIL_AT(dovetail_progress, report, 16);

DOVETAIL_SIZE(dovetail_device_info, 64);
DOVETAIL_AT(dovetail_device_info, size, 0);
DOVETAIL_AT(dovetail_device_info, index, 8);
DOVETAIL_AT(dovetail_device_info, half_precision, 12);
DOVETAIL_AT(dovetail_device_info, memory_bytes, 16);
DOVETAIL_AT(dovetail_device_info, name, 24);
DOVETAIL_AT(dovetail_device_info, revision, 32);
DOVETAIL_AT(dovetail_device_info, facts, 40);

DOVETAIL_SIZE(dovetail_backend_host, 40);
DOVETAIL_AT(dovetail_backend_host, size, 0);
DOVETAIL_AT(dovetail_backend_host, abi_major, 8);
DOVETAIL_AT(dovetail_backend_host, abi_minor, 12);
DOVETAIL_AT(dovetail_backend_host, library, 16);
DOVETAIL_AT(dovetail_backend_host, log, 24);
DOVETAIL_AT(dovetail_backend_host, extension, 32);

DOVETAIL_SIZE(dovetail_backend, 264);
DOVETAIL_AT(dovetail_backend, size, 0);
DOVETAIL_AT(dovetail_backend, abi_major, 8);
DOVETAIL_AT(dovetail_backend, abi_minor, 12);
DOVETAIL_AT(dovetail_backend, id, 16);
DOVETAIL_AT(dovetail_backend, version, 24);
DOVETAIL_AT(dovetail_backend, capabilities, 32);
DOVETAIL_AT(dovetail_backend, n_options, 36);
DOVETAIL_AT(dovetail_backend, n_kind_versions, 40);
DOVETAIL_AT(dovetail_backend, n_devices, 44);
DOVETAIL_AT(dovetail_backend, options, 48);
DOVETAIL_AT(dovetail_backend, kind_versions, 56);
DOVETAIL_AT(dovetail_backend, state, 64);
DOVETAIL_AT(dovetail_backend, device_info, 72);
DOVETAIL_AT(dovetail_backend, device_state, 80);
DOVETAIL_AT(dovetail_backend, supports, 88);
DOVETAIL_AT(dovetail_backend, claim_subgraph, 96);
DOVETAIL_AT(dovetail_backend, compile_subgraph, 104);
DOVETAIL_AT(dovetail_backend, compiled_release, 112);
DOVETAIL_AT(dovetail_backend, artefact_save, 120);
DOVETAIL_AT(dovetail_backend, artefact_check, 128);
DOVETAIL_AT(dovetail_backend, artefact_load, 136);
DOVETAIL_AT(dovetail_backend, context_open, 144);
DOVETAIL_AT(dovetail_backend, context_close, 152);
DOVETAIL_AT(dovetail_backend, create_workload, 160);
DOVETAIL_AT(dovetail_backend, create_compiled_workload, 168);
DOVETAIL_AT(dovetail_backend, queues, 176);
DOVETAIL_AT(dovetail_backend, memory, 184);
DOVETAIL_AT(dovetail_backend, tensor_memory, 192);
DOVETAIL_AT(dovetail_backend, memory_allocate, 200);
DOVETAIL_AT(dovetail_backend, memory_release, 208);
DOVETAIL_AT(dovetail_backend, memory_map, 216);
DOVETAIL_AT(dovetail_backend, memory_unmap, 224);
DOVETAIL_AT(dovetail_backend, create_copy, 232);
DOVETAIL_AT(dovetail_backend, close, 240);
DOVETAIL_AT(dovetail_backend, extension, 248);
DOVETAIL_AT(dovetail_backend, image_allocate, 256);

#undef DOVETAIL_SIZE
#undef DOVETAIL_AT
#endif

#endif
