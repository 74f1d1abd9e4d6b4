"""Wrap the runtime, here ONNX Runtime.

A vendor replaces the three places that name it.
"""

from contextlib import contextmanager
from importlib.util import find_spec
from threading import Timer
from time import monotonic

LATE = 0.01  # seconds after a deadline, so that the run has ended when the session does


def problem():
    """Return why the runtime cannot be used, or None if it can; imports nothing."""
    return None if find_spec("onnxruntime") else "onnxruntime is not installed; pip install onnxruntime"


def open_session(model, factory):
    """Return the workload of a part, with as many threads as the user lets the network have."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = factory.resources.threads
    options.inter_op_num_threads = 1
    # Threads that wait for work leave the cores to other backends' layers.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    opened = onnxruntime.InferenceSession(model.to_bytes(), options, providers=["CPUExecutionProvider"])
    return Session(opened, model.inputs, model.outputs)


@contextmanager
def ended_by(run):
    """Give run options that end a session at our deadline.

    Whatever the session raises then is that end.
    """
    from onnxruntime import RunOptions

    options = RunOptions()
    if run.deadline is None:
        yield options
        return
    timer = Timer(run.deadline - monotonic() + LATE, setattr, (options, "terminate", True))
    timer.start()
    try:
        yield options
    finally:
        timer.cancel()


class Session:
    """A workload, possibly in several runs at once.

    `execute` gets NumPy arrays in the order of the part's inputs and outputs.
    """

    sees_run = True

    def __init__(self, opened, inputs, outputs):
        self.opened = opened
        self.inputs = inputs
        self.outputs = outputs

    def execute(self, inputs, outputs, run):
        """Run the part into the arrays that the core planned: nothing is copied."""
        binding = self.opened.io_binding()
        for name, array in zip(self.inputs, inputs):
            binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        for name, array in zip(self.outputs, outputs):
            binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        with ended_by(run) as options:
            self.opened.run_with_iobinding(binding, options)
