"""What other libraries call the things of dovetail, for errors about names that it does not have.

It is imported when a name was not found, and never before. A name is followed by what to use here,
as a sentence without its full stop.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

_LOAD = "dovetail.load(path) returns a network that is ready to run"
_CALL = "run it by net.run({name: array}) or, if it has one input, net(array)"
_TO_RUN = "to run a network, load it: net = dovetail.load(network), then net.run({name: array})"
_SETTLED = "a loaded network is ready to run: nothing is to be allocated, compiled or switched"
_INPUTS = "net.inputs has the name, shape and dtype of each"
_OUTPUTS = "net.outputs has the name, shape and dtype of each"
_FED = "hand arrays to each run, net.run({name: array}), or fix them once: net.bind({name: array})"
_PLACED = "name backends in order of preference when it is loaded: dovetail.load(model, backends=[...])"
_BACKENDS = "dovetail.backends() lists what is installed"
_READ = "dovetail.parse(path) returns the network of a model file, dovetail.load(path) one that is ready to run"
_PROFILE = "with net.profiling() as profile: net.run(...)"
_THREADS = "give threads= to dovetail.load, or to dovetail.Runtime for many networks"
_TYPES = "element types are members of dovetail.DType, or those of NumPy"

_COMMANDS = (
    "claims",
    "completion",
    "conform",
    "diff",
    "doctor",
    "guarded",
    "lock",
    "new-backend",
    "probe",
    "quarantine",
    "tune",
)

OF_PACKAGE = {
    **dict.fromkeys(("InferenceSession", "Interpreter", "Session", "CompiledModel", "create_session", "load_model"), _LOAD),
    **dict.fromkeys(("compile_model", "load_delegate", "load_file", "from_file", "open", "Model", "Predictor"), _LOAD),
    **dict.fromkeys(("read_model", "import_model", "from_onnx", "from_tflite", "import_onnx", "convert_model"), _READ),
    **dict.fromkeys(
        ("Core", "IECore", "Engine"), "dovetail.load(path) needs nothing before it; a dovetail.Runtime is optional"
    ),
    **dict.fromkeys(("SessionOptions", "RunOptions", "set_num_threads", "get_num_threads"), _THREADS),
    **dict.fromkeys(("get_available_providers", "get_all_providers", "available_devices", "list_backends"), _BACKENDS),
    **dict.fromkeys(("get_device", "device", "devices", "providers"), _BACKENDS),
    **dict.fromkeys(("Tensor", "OrtValue", "tensor", "array"), "tensors are NumPy arrays, or anything with __dlpack__"),
    **dict.fromkeys(("float32", "float16", "bfloat16", "int8", "uint8", "int32", "int64"), _TYPES),
    **dict.fromkeys(("run", "infer", "predict"), f"{_LOAD}: net.run({{name: array}})"),
    **dict.fromkeys(("no_grad", "inference_mode"), "a run computes no gradients: nothing is to be switched off"),
    **dict.fromkeys(("Module", "Sequential", "Graph", "nn"), "a network is built by the methods of a dovetail.Network"),
    "compile": "dovetail.load(model) compiles what backends compile; dovetail.optimize(network) does so without loading",
    "save": "a dovetail.Network can be pickled",
    "explain": "print(net.placement.explain()) says who runs each layer, and why, as `dovetail explain` does",
    "benchmark": f"`dovetail benchmark model.onnx` measures a model; in a program {_PROFILE} does",
    "quantize": "`dovetail quantize model.onnx --calibration samples.npz -o quantized.onnx` makes a model of integers",
    **dict.fromkeys(
        ("show", "summary", "info"), "print(dovetail.parse(path)) shows the layers of a model, as `dovetail show` does"
    ),
    **{name.replace("-", "_"): f"that is a command, `dovetail {name}`, for terminals" for name in _COMMANDS},
}
"""Names of the package `dovetail`; commands are among them, which programs call otherwise."""


def of_backend(id: str) -> str:
    """Say what to do with a backend, whose id is no name of the package."""
    return f"it is the id of a backend: dovetail.load(path, backends=[{id!r}])"


OF_NETWORKS = {
    **dict.fromkeys(("predict", "infer", "forward", "execute", "evaluate", "invoke"), _CALL),
    **dict.fromkeys(("create_infer_request", "infer_new_request", "get_signature_runner"), _CALL),
    **dict.fromkeys(
        ("start_async", "async_infer"), "net.submit(feeds) returns a future; await net.run_async(feeds) its result"
    ),
    **dict.fromkeys(("get_inputs", "get_input_details", "input_names", "input"), _INPUTS),
    **dict.fromkeys(("get_outputs", "get_output_details", "output_names", "output"), _OUTPUTS),
    **dict.fromkeys(("set_tensor", "set_input_tensor", "resize_tensor_input", "reshape"), _FED),
    **dict.fromkeys(
        ("get_tensor", "get_output_tensor"), "a run returns arrays; one from the inside by net.run(feeds, outputs=[name])"
    ),
    **dict.fromkeys(
        ("io_binding", "run_with_iobinding"), "net.bind(inputs, outputs) fixes arrays, and its run() reads and writes them"
    ),
    **dict.fromkeys(("allocate_tensors", "eval", "train", "compile"), _SETTLED),
    **dict.fromkeys(("to", "cuda", "cpu", "set_providers", "get_providers"), f"{_PLACED}; net.placement says who runs what"),
    **dict.fromkeys(("half", "float"), "reduce_float='float16' of dovetail.load converts layers where a backend wants it"),
    **dict.fromkeys(("end_profiling", "profile"), _PROFILE),
    **dict.fromkeys(("get_modelmeta", "get_rt_info"), "net.metadata has what the model file says of itself"),
    **dict.fromkeys(("reset_all_variables", "reset_states"), "net.reset_state() forgets what earlier runs left"),
    **dict.fromkeys(("close", "release"), "net.unload(), or with dovetail.load(path) as net:"),
    **dict.fromkeys(
        ("layers", "summary", "state_dict"), "dovetail.parse(path).layers has the layers; print(net.placement.explain())"
    ),
}
"""Attributes of a network that is loaded."""

OF_BUILDERS = {
    **dict.fromkeys(("run", "predict", "forward", "execute", "bind"), _TO_RUN),
    **dict.fromkeys(("conv", "conv2d", "Conv2d", "Conv2D", "conv_2d"), "it is convolution2d"),
    **dict.fromkeys(("depthwise_conv2d", "DepthwiseConv2D"), "it is depthwise_convolution2d"),
    **dict.fromkeys(("conv_transpose2d", "ConvTranspose2d", "deconvolution"), "it is transpose_convolution2d"),
    **dict.fromkeys(("linear", "dense", "Linear", "Dense", "gemm"), "it is fully_connected, whose weights are [out, in]"),
    **dict.fromkeys(("mul", "multiply"), "it is multiplication"),
    **dict.fromkeys(("sub", "subtract"), "it is subtraction"),
    **dict.fromkeys(("div", "divide"), "it is division"),
    **dict.fromkeys(("cat", "concatenate"), "it is concat"),
    "transpose": "it is permute",
    **dict.fromkeys(("max_pool2d", "MaxPool2d", "maxpool"), "it is pooling2d(x, 'max', size)"),
    **dict.fromkeys(("avg_pool2d", "AvgPool2d", "average_pool"), "it is pooling2d(x, 'average', size)"),
    **dict.fromkeys(("batch_norm", "BatchNorm2d"), "it is batch_normalization"),
    **dict.fromkeys(("layer_norm", "LayerNorm"), "it is layer_normalization"),
    **dict.fromkeys(("interpolate", "upsample"), "it is resize"),
    **dict.fromkeys(("placeholder", "add_input"), "it is input(name, shape)"),
    **dict.fromkeys(("add_output", "mark_output"), "it is output(slot, name)"),
    **dict.fromkeys(("add_layer", "append"), "a layer goes in by its method, such as relu(x), or by add(descriptor, x)"),
    "save": "a network can be pickled",
}
"""Attributes of a network that is being built."""

_IN_ORDER = 'give backends=[...] in order of preference, such as ["AcmeNpu?", "AcmeCpu"]; dovetail.backends() lists them'

OF_LOAD = {
    **dict.fromkeys(("provider", "providers", "backend", "delegate", "delegates", "experimental_delegates"), _IN_ORDER),
    **dict.fromkeys(
        ("device", "devices", "device_name", "map_location"), f"{_IN_ORDER}, and 'Id:1' is the second device of one"
    ),
    **dict.fromkeys(
        ("provider_options", "config", "session_options", "sess_options", "properties"),
        ("give options={backend id: {option: value}}, and what else is asked by its own name, such as threads="),
    ),
    **dict.fromkeys(("num_threads", "n_threads", "nthreads", "intra_op_num_threads", "inter_op_num_threads"), "give threads="),
    **dict.fromkeys(("num_workers", "cpu_threads"), "give threads="),
    **dict.fromkeys(
        ("batch", "batch_size", "shape", "input_shape", "input_shapes", "dynamic_shapes"),
        ("give shapes={symbol: size}, or {input name: shape}; sizes that stay open are those of each run"),
    ),
    **dict.fromkeys(("dtype", "precision", "fp16", "half", "torch_dtype"), "give reduce_float='float16' or 'bfloat16'"),
    **dict.fromkeys(
        ("model_path", "path", "file", "filename", "model_file", "model_content", "model_bytes"),
        ("the model is the first argument: its path, or the bytes of it"),
    ),
    **dict.fromkeys(
        ("optimize", "graph_optimization_level", "optimization_level"), "give passes=False for no more than is needed"
    ),
    **dict.fromkeys(("verbose", "log_level", "log_severity_level"), 'logging.getLogger("dovetail") has what it says'),
    **dict.fromkeys(("profile", "enable_profiling"), f"load it, then {_PROFILE}"),
    **dict.fromkeys(("cache_dir", "use_cache"), "the environment variable DOVETAIL_CACHE_DIR names the folder of what is kept"),
}
"""Arguments by name of `load`, `optimize` and what they hand on."""


_FEEDS = "arrays go first, by input name: net.run({name: array})"

OF_RUN = {
    **dict.fromkeys(("input_feed", "feed_dict", "input_dict", "input", "x", "data", "args", "kwargs", "request"), _FEEDS),
    "inputs": _FEEDS,
    **dict.fromkeys(
        ("output_names", "output", "output_name", "fetches", "fetch_list"), "name what is to be returned: outputs=[name]"
    ),
    **dict.fromkeys(
        ("run_options", "options", "backends", "threads"), "a run has timeout= alone; the rest is for dovetail.load"
    ),
    "batch_size": "a run takes its sizes from the arrays that it is given",
    "share_inputs": "arrays that are C-contiguous and of the right dtype are read in place",
}
"""Arguments by name of a run."""

OF_PARSERS = {
    **{name: sentence for name, sentence in OF_PACKAGE.items() if sentence in (_LOAD, _READ)},
    **{name: OF_PACKAGE[name] for name in ("SessionOptions", "get_available_providers", "run")},
    **dict.fromkeys(("load", "load_model", "load_model_from_string", "ModelProto", "Model"), _READ),
}
"""Names of the packages that parse files, which others import in the place of theirs."""


def no_argument(caller: str, name: str, known: Iterable[str], of_load: Container[str]) -> str | None:
    """Say what to do in the place of an argument by name that a function does not have.

    Args:
        caller: The function, for examples.
        name: The argument.
        known: Those that it has.
        of_load: Those that `dovetail.load` has beside it.

    Returns:
        A sentence, or None if nothing is known of the name.
    """
    if name in of_load:
        return f"it is one of dovetail.load(model, runtime=runtime, {name}=...); here it goes into optimize={{{name!r}: ...}}"
    sentence = OF_LOAD.get(name)
    if sentence is None:
        return None
    wanted = re.findall(r"\b(\w+)=", sentence)
    return f"{sentence}; that is for dovetail.load, not for {caller}" if wanted and wanted[0] not in known else sentence


def no_attribute(whose: str, name: str, elsewhere: dict[str, str]) -> str:
    """Return the message of an `AttributeError`."""
    text = f"{whose} has no attribute {name!r}"
    return f"{text}: {elsewhere[name]}" if name in elsewhere else text
