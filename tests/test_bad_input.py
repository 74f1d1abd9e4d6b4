"""Check that bad input is a typed error with code and next step, and the network goes on."""

import numpy as np
import pytest

from dovetail import (
    BackendError,
    BackendUnavailableError,
    ErrorCode,
    GraphError,
    InputError,
    ModelError,
    Network,
    OptionError,
    PlacementError,
    RunError,
    Runtime,
    load,
)

X = np.arange(12, dtype=np.float32).reshape(3, 4)
INDEX = np.array([1, 2, 3], np.int64)


@pytest.fixture
def net(hard):
    """Two inputs, two outputs; `x` has a symbolic batch."""
    network = Network("checked")
    x = network.input("x", ("N", 4))
    z = network.input("z", ("N",), np.int64)
    network.output(network.add(hard.Call(function="same"), x).output, "y")
    network.output(network.add(hard.Call(function="same"), z).output, "w")
    with Runtime(threads=1) as runtime:
        yield runtime.load(network, optimize={"backends": [hard.PythonBackend(same=lambda inputs: inputs[0])]})


def assert_works(net, x=X):
    results = net.run({"x": x, "z": INDEX})
    assert np.array_equal(results["y"], X)
    assert np.array_equal(results["w"], INDEX)


def refused(net, feeds, code, *, hint, call="run"):
    with pytest.raises(InputError) as caught:
        getattr(net, call)(feeds)
    error = caught.value
    assert error.code == code
    assert isinstance(error, RunError)
    assert isinstance(error, ValueError)
    assert hint in (error.hint or ""), error.hint
    assert_works(net)
    return str(error)


@pytest.mark.parametrize("call", ["run", "bind"])
def test_names(net, call):
    text = refused(net, {"x": X}, ErrorCode.INPUT_NAME, hint="'x', 'z'", call=call)
    assert "input 'z' is missing" in text
    text = refused(net, {"x": X, "z": INDEX, "q": X}, ErrorCode.INPUT_NAME, hint="'x', 'z'", call=call)
    assert "no input 'q'" in text
    text = refused(net, {"X": X, "z": INDEX}, ErrorCode.INPUT_NAME, hint="'x', 'z'", call=call)
    assert "'x' is missing" in text
    assert "no input 'X'" in text
    refused(net, {1: X, "z": INDEX}, ErrorCode.INPUT_NAME, hint="'x', 'z'", call=call)
    refused(net, {}, ErrorCode.INPUT_NAME, hint="'x', 'z'", call=call)


@pytest.mark.parametrize("feeds", [None, 3, X, [X], "x"])
def test_no_dictionary(net, feeds):
    with pytest.raises(InputError) as caught:
        net.run(feeds)
    assert caught.value.code in (ErrorCode.INPUT_NAME, ErrorCode.INPUT_DTYPE)
    assert caught.value.hint
    assert_works(net)


@pytest.mark.parametrize("call", ["run", "bind"])
@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", "i8", "u1", "?", "c8", "U4", "O", "M8[s]"])
def test_dtypes(net, dtype, call):
    x = np.zeros((3, 4), dtype)
    text = refused(net, {"x": x, "z": INDEX}, ErrorCode.INPUT_DTYPE, hint="x.astype(np.float32)", call=call)
    assert str(x.dtype) in text
    assert "expected float32" in text
    assert "z.astype(np.int64)" in refused(
        net, {"x": X, "z": INDEX.astype(np.int32)}, ErrorCode.INPUT_DTYPE, hint="z.astype(np.int64)", call=call
    )


@pytest.mark.parametrize("call", ["run", "bind"])
@pytest.mark.parametrize("shape", [(3, 5), (4, 3), (12,), (3, 4, 1), (1, 3, 4), ()])
def test_shapes(net, shape, call):
    text = refused(net, {"x": np.zeros(shape, np.float32), "z": INDEX}, ErrorCode.INPUT_SHAPE, hint="never guessed", call=call)
    assert "expected [N, 4" in text
    assert str(list(shape)) in text


def test_symbolic_sizes_must_agree(net):
    text = refused(net, {"x": X, "z": INDEX[:2]}, ErrorCode.INPUT_SHAPE, hint="never guessed")
    assert "N = 3" in text
    for n in (1, 2, 5, 0):
        results = net.run({"x": np.ones((n, 4), np.float32), "z": np.zeros(n, np.int64)})
        assert results["y"].shape == (n, 4)


@pytest.mark.parametrize("value", [None, 3.0, [[0.0] * 4] * 3, "x", object(), b"123", X.tolist()])
def test_what_is_no_array(net, value):
    for call in ("run", "bind"):
        refused(net, {"x": value, "z": INDEX}, ErrorCode.INPUT_DTYPE, hint="NumPy array", call=call)


VIEWS = {
    "transposed": np.asfortranarray(X),
    "strided": np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": X[::-1, ::-1].copy()[::-1, ::-1],
    "big_endian": X.astype(">f4"),
    "unaligned": np.frombuffer(b"0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(3, 4),
}


@pytest.mark.parametrize("view", VIEWS)
def test_other_layouts_are_copied_by_run_and_refused_by_bind(net, view):
    assert np.array_equal(VIEWS[view], X)
    assert_works(net, VIEWS[view])
    text = refused(net, {"x": VIEWS[view], "z": INDEX}, ErrorCode.BINDING_INVALID, hint="ascontiguousarray", call="bind")
    assert "contiguous" in text


def test_read_only_and_subclassed_inputs(net):
    x = X.copy()
    x.flags.writeable = False
    assert_works(net, x)
    assert_works(net, np.ma.masked_array(X))
    binding = net.bind({"x": x, "z": INDEX})
    assert np.array_equal(binding.run()["y"], X)


class Exported:
    """An array of some other library."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Broken(Exported):
    def __dlpack__(self, **arguments):
        raise BufferError("this tensor needs its gradient")


def test_other_libraries(net):
    assert_works(net, Exported(X))
    assert np.array_equal(net.bind({"x": Exported(X), "z": Exported(INDEX)}).run()["y"], X)
    text = refused(net, {"x": Broken(X), "z": INDEX}, ErrorCode.INPUT_DTYPE, hint="host memory")
    assert "needs its gradient" in text
    refused(net, {"x": Exported(X.astype(np.float64)), "z": INDEX}, ErrorCode.INPUT_DTYPE, hint="float32")


# -- outputs ---------------------------------------------------------------------------------------


def bind_refused(net, outputs, code, inputs=None):
    with pytest.raises(InputError) as caught:
        net.bind(inputs or {"x": X, "z": INDEX}, outputs)
    assert caught.value.code == code
    assert caught.value.hint
    assert_works(net)
    return str(caught.value)


def test_outputs_of_a_binding(net):
    y = np.zeros((3, 4), np.float32)
    assert "y, w" in bind_refused(net, {"v": y}, ErrorCode.OUTPUT_NAME)
    assert "expected float32[3, 4]" in bind_refused(net, {"y": y.astype(np.float64)}, ErrorCode.BINDING_INVALID)
    bind_refused(net, {"y": y.T}, ErrorCode.BINDING_INVALID)
    bind_refused(net, {"y": np.zeros((4, 3), np.float32).T}, ErrorCode.BINDING_INVALID)
    bind_refused(net, {"y": np.zeros((3, 8), np.float32)[:, ::2]}, ErrorCode.BINDING_INVALID)
    bind_refused(net, {"y": y.astype(">f4")}, ErrorCode.BINDING_INVALID)
    bind_refused(net, {"y": None}, ErrorCode.INPUT_DTYPE)
    y.flags.writeable = False
    assert "writeable" in bind_refused(net, {"y": y}, ErrorCode.BINDING_INVALID)


def test_arrays_of_a_binding_must_not_overlap(net):
    memory = np.zeros(64, np.float32)
    x, y = memory[:12].reshape(3, 4), memory[8:20].reshape(3, 4)
    assert "overlaps with 'x'" in bind_refused(net, {"y": y}, ErrorCode.BINDING_INVALID, {"x": x, "z": INDEX})
    assert "overlaps with 'x'" in bind_refused(net, {"y": x}, ErrorCode.BINDING_INVALID, {"x": x, "z": INDEX})
    bytes_ = np.zeros(96, np.uint8)
    outputs = {"y": bytes_[:48].view(np.float32).reshape(3, 4), "w": bytes_[40:64].view(np.int64)}
    assert "overlaps with 'y'" in bind_refused(net, outputs, ErrorCode.BINDING_INVALID)
    apart = {"y": memory[16:28].reshape(3, 4)}
    x[...] = X
    assert np.array_equal(net.bind({"x": x, "z": INDEX}, apart).run()["y"], X)
    assert np.array_equal(apart["y"], X)


# -- loading ---------------------------------------------------------------------------------------


def one_layer(hard):
    network = Network("one")
    network.output(network.add(hard.Parallel(mode="nested"), network.input("x", (4,)), name="layer").output, "y")
    return network


def test_backends_that_are_not_there(hard):
    with Runtime(threads=1) as runtime:
        for wish, code, error in (
            ("NoSuchBackend", ErrorCode.BACKEND_UNAVAILABLE, BackendUnavailableError),
            ("no such backend", ErrorCode.BACKEND_ID_INVALID, BackendError),
            ("", ErrorCode.BACKEND_ID_INVALID, BackendError),
            ("Acme:x", ErrorCode.BACKEND_ID_INVALID, BackendError),
        ):
            with pytest.raises(error) as caught:
                runtime.load(one_layer(hard), optimize={"backends": [wish]})
            assert caught.value.code == code
            assert caught.value.hint
        net = runtime.load(one_layer(hard), optimize={"backends": ["NoSuchBackend?", hard.ParallelBackend()]})
        assert "NoSuchBackend" in net.placement.explain()
        with pytest.raises(PlacementError) as caught:
            runtime.load(one_layer(hard), optimize={"backends": [hard.PythonBackend()]})
        assert caught.value.code == ErrorCode.NO_BACKEND_FOR_LAYER
        assert "layer" in str(caught.value)


def test_a_placement_that_is_not_as_wished_is_told_once_per_network(hard, caplog):
    net = Network("told")
    net.output(net.relu(net.input("x", ("N", 4)), name="act"), "y")
    with Runtime(threads=1) as runtime, caplog.at_level("INFO", "dovetail"):
        constraints = {"backends": [hard.PythonBackend(), "CpuRef"]}
        with runtime.load(net, optimize=constraints) as loaded:
            for size in (1, 2, 3):
                loaded.run({"x": np.zeros((size, 4), np.float32)})
    told = [(record.levelname, record.getMessage()) for record in caplog.records if "'told'" in record.getMessage()]
    assert [level for level, _ in told] == ["WARNING", "INFO"]
    assert "backend PythonTest runs none of its layers; of 'act' it says: no Python for dovetail.Activation" in told[0][1]
    assert "1 fallback;" in told[1][1]
    assert "placement.explain()" in told[1][1]


def test_an_optional_backend_that_is_absent_is_told_once_per_network(hard, caplog):
    network = Network("open")
    network.output(network.add(hard.Call(function="same"), network.input("x", ("N",))).output, "y")
    backends = ["NoSuchBackend?", hard.PythonBackend(same=lambda inputs: inputs[0])]
    with Runtime(threads=1) as runtime:
        net = runtime.load(network, optimize={"backends": backends})
        for size in (1, 2, 3):
            net.run({"x": np.zeros(size, np.float32)})
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "'open' does without NoSuchBackend?" in record.getMessage()


@pytest.mark.parametrize("model", [None, ["list"], 3])
def test_what_is_no_model(model):
    with pytest.raises(OptionError) as caught:
        load(model)
    assert caught.value.code == ErrorCode.OPTION_INVALID
    assert type(model).__name__ in caught.value.message
    assert "path of a model file" in caught.value.message
    assert "dovetail.Network" in caught.value.hint


def test_bytes_that_are_no_model():
    with pytest.raises(ModelError, match="the 15 bytes are a model in no format") as caught:
        load(b"bytes of a file")
    assert ".onnx" in caught.value.hint


def test_options_that_are_not_there(hard):
    with Runtime(threads=1) as runtime:
        for options, code in (
            ({"ParallelTest": {"speed": 3}}, ErrorCode.OPTION_UNKNOWN),
            ({"NoSuchBackend": {"speed": 3}}, ErrorCode.OPTION_UNKNOWN),
        ):
            with pytest.raises(OptionError) as caught:
                runtime.load(one_layer(hard), optimize={"backends": [hard.ParallelBackend()], "options": options})
            assert caught.value.code == code
            assert caught.value.hint
        for threads in (0, -1, "two", 1.5, True):
            with pytest.raises(OptionError):
                runtime.load(one_layer(hard), threads=threads, optimize={"backends": [hard.ParallelBackend()]})


@pytest.mark.parametrize("arguments", [{"threads": 0}, {"threads": 5000}, {"threads": "2"}, {"spin_us": -1}, {"spin_us": 1.5}])
def test_options_of_a_runtime(arguments):
    with pytest.raises(OptionError) as caught:
        Runtime(**arguments)
    assert caught.value.code == ErrorCode.OPTION_INVALID
    assert caught.value.hint


def test_sizes_that_do_not_fit_are_told_in_symbols():
    network = Network("product")
    x = network.input("x", ("batch", "k"))
    longer = network.concat([x, x], axis=1)
    network.output(network.matmul(longer, np.ones((64, 10), np.float32), name="product"), "y")
    with load(network, ["CpuRef"]) as net:
        assert net.outputs[0].shape == ("batch", 10)
        with pytest.raises(GraphError) as caught:
            net.run({"x": np.ones((2, 30), np.float32)})
        assert caught.value.code == ErrorCode.SHAPE_MISMATCH
        assert "the inner sizes are 60 and 64; in symbols its inputs are [batch, 2*k], [64, 10]" in caught.value.message
        assert caught.value.details["symbolic_inputs"] == ["[batch, 2*k]", "[64, 10]"]
        assert net.run({"x": np.ones((2, 32), np.float32)})["y"].shape == (2, 10)
