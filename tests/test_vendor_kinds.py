"""Run a kind from outside: from an ONNX model with symbolic sizes, by extension points alone."""

import sys

import numpy as np
import pytest
from onnx import TensorProto, helper

import dovetail
from dovetail import BackendId, IBackend, IWorkloadFactory, Support
from dovetail.ground.offers import Offers
from dovetail_onnx import own_operators, parse

MODULE = '''
from dovetail import Descriptor
from dovetail.graph.descriptor import descriptor_class
from dovetail_onnx import Unsupported, operator


@descriptor_class
class Paired(Descriptor, kind="acme.Paired"):
    """Join each two rows; a last one without a partner is dropped."""

    def infer(self, inputs):
        rows, columns = inputs[0].sizes
        return [inputs[0].with_shape((rows // 2, columns * 2))]


@descriptor_class
class Stubborn(Paired, kind="acme.Stubborn"):
    """The same by somebody who wants numbers."""

    def infer(self, inputs):
        rows, columns = map(int, inputs[0].sizes)
        return [inputs[0].with_shape((rows // 2, columns * 2))]


@operator("com.acme", "Paired", "Stubborn")
def paired(node):
    if node.integer("partners", 2) != 2:
        raise Unsupported("only two can be joined", attribute="partners")
    kind = Paired if node.op == "Paired" else Stubborn
    return node.network.add(kind(), node.input(0), name=node.label()).output
'''


class Pairing:
    def execute(self, inputs, outputs):
        outputs[0][...] = inputs[0][: len(outputs[0]) * 2].reshape(outputs[0].shape)


class Factory(IWorkloadFactory):
    def create_workload(self, layer):
        return Pairing()


class Acme(IBackend):
    @property
    def id(self):
        return BackendId("Acme")

    def supports(self, layer, options, device):
        return Support.yes() if layer.kind.startswith("acme.") else Support.no("kind", f"there is no kernel for {layer.kind}")

    def create_workload_factory(self, context, memory, options):
        return Factory()


@pytest.fixture
def offered(tmp_path, monkeypatch):
    """Install a package, as pip would, that translates the domain com.acme by the module's text."""
    monkeypatch.setattr(own_operators.OWN, "_table", dict(own_operators.OWN._table))
    monkeypatch.setattr(own_operators.OWN, "_offers", Offers(own_operators.GROUP))
    monkeypatch.syspath_prepend(tmp_path)
    info = tmp_path / "dovetail_acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dovetail-acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dovetail.onnx_operators]\ncom.acme = acme_onnx_operators\n")

    def write(text):
        monkeypatch.delitem(sys.modules, "acme_onnx_operators", raising=False)
        (tmp_path / "acme_onnx_operators.py").write_text(text)

    write(MODULE)
    yield write
    sys.modules.pop("acme_onnx_operators", None)


def model(op, **attributes):
    """Return x -> relu -> the vendor's operator -> joined with itself."""
    nodes = [
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node(op, ["positive"], ["pairs"], name="pairing", domain="com.acme", **attributes),
        helper.make_node("Concat", ["pairs", "pairs"], ["y"], axis=0),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", "columns"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.acme", 1)]
    return helper.make_model(helper.make_graph(nodes, "pairs", [x], [y]), opset_imports=opsets, ir_version=10)


def check_runs(net):
    for rows, columns in ((4, 3), (7, 1), (1, 5)):
        x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns) - 3
        pairs = np.maximum(x, 0)[: rows // 2 * 2].reshape(rows // 2, columns * 2)
        np.testing.assert_array_equal(net.run({"x": x})["y"], np.concatenate([pairs, pairs]))


def test_a_kind_of_a_model_runs_with_sizes_that_follow_from_symbols(offered):
    with dovetail.load(parse(model("Paired")), [Acme(), "CpuRef"]) as net:
        assert [spec.shape for spec in net.outputs] == [("2*(rows//2)", "2*columns")]
        check_runs(net)
        assert [layer.backend for layer in net.placement.layers if layer.kind == "acme.Paired"] == ["Acme"]


def test_a_kind_that_wants_numbers_runs_all_the_same(offered):
    with dovetail.load(parse(model("Stubborn")), [Acme(), "CpuRef"]) as net:
        with pytest.raises(dovetail.RunError, match="not planned yet"):
            _ = net.outputs
        check_runs(net)


def test_what_a_translation_refuses_is_listed(offered):
    with pytest.raises(dovetail.UnsupportedModelError, match="only two can be joined") as caught:
        parse(model("Paired", partners=3))
    assert caught.value.details["unsupported"][0]["domain"] == "com.acme"
    with pytest.raises(dovetail.UnsupportedModelError, match="attribute 'strange'"):
        parse(model("Paired", strange=1))
    with pytest.raises(dovetail.UnsupportedModelError, match="no function is registered for it"):
        parse(model("Tripled"))


def test_a_package_that_cannot_be_imported_is_named(offered):
    offered(MODULE + "import a_module_that_is_not_there\n")  # what it registered before does not stay
    with pytest.raises(dovetail.UnsupportedModelError, match=r"dovetail-acme 1\.0 offers .* cannot be imported"):
        parse(model("Paired"))
    offered(MODULE)
    assert isinstance(parse(model("Paired")).layer("pairing"), dovetail.Layer)


def test_other_models_import_nothing(offered):
    offered("raise AssertionError('imported in vain')\n")
    plain = model("Paired")
    del plain.graph.node[1:]
    plain.graph.node[0].output[0] = "y"
    parse(plain)
