"""The runtime that is wrapped: here ONNX Runtime. A vendor replaces the three places that name it."""

from importlib.util import find_spec


def problem():
    """Return why the runtime cannot be used, or None if it can; imports nothing."""
    return None if find_spec("onnxruntime") else "onnxruntime is not installed; pip install onnxruntime"


def open_session(model, factory):
    """Return the workload of a part, with as many threads as the user lets the network have."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = factory.resources.threads
    options.inter_op_num_threads = 1
    opened = onnxruntime.InferenceSession(model.to_bytes(), options, providers=["CPUExecutionProvider"])
    return Session(opened, model.inputs, model.outputs)


class Session:
    """A workload: `execute` gets NumPy arrays in the order of the part's inputs and outputs, possibly in several runs at once."""

    def __init__(self, opened, inputs, outputs):
        self.opened = opened
        self.inputs = inputs
        self.outputs = outputs

    def execute(self, inputs, outputs):
        """Run the part into the arrays that the core planned: nothing is copied."""
        binding = self.opened.io_binding()
        for name, array in zip(self.inputs, inputs):
            binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        for name, array in zip(self.outputs, outputs):
            binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        self.opened.run_with_iobinding(binding)
