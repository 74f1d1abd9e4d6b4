"""Mutations that know what a model means.

Most of what they make is still a model, and gets as far as optimizer and kernels.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from . import values
from .networks import LOCATION, LOCATION_BYTES
from .seeds import Seed, Seeds

LOCATIONS = (
    LOCATION,
    LOCATION,
    "missing.bin",
    "pipe",
    "link",
    "folder",
    "folder/link",
    "folder/weights.bin",
    "../x",
    "/dev/zero",
    "",
    ".",
)
NUMERIC = (
    *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT8, TensorProto.UINT8),
    *(TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.INT16, TensorProto.UINT32, TensorProto.STRING),
)


class Changed:
    """A model under change.

    Attributes:
        model: It.
        feeds: Values that its inputs can be fed.
        seeds: Where nodes of other models are taken from.
    """

    def __init__(self, luck: random.Random, seed: Seed, seeds: Seeds) -> None:
        self.luck = luck
        self.model: ModelProto = seed.model()
        self.feeds = dict(seed.feeds)
        self.seeds = seeds

    @property
    def graph(self) -> GraphProto:
        """The main graph."""
        return self.model.graph

    def node(self) -> NodeProto | None:
        """Choose a node of the main graph or of a function."""
        nodes = list(self.graph.node)
        if self.model.functions and self.luck.random() < 0.3:
            nodes = list(self.luck.choice(list(self.model.functions)).node)
        return self.luck.choice(nodes) if nodes else None

    def main_node(self) -> tuple[int, NodeProto | None]:
        """Choose a node of the main graph; returns its place too."""
        nodes = self.graph.node
        place = self.luck.randrange(len(nodes)) if nodes else 0
        return place, nodes[place] if nodes else None

    def slots(self) -> list[str]:
        """List the names of all values of the main graph."""
        names = [entry.name for entry in (*self.graph.input, *self.graph.initializer)]
        return [*names, *(name for node in self.graph.node for name in node.output if name)]


def mutate(changed: Changed) -> str:
    """Change a model in place; returns what was done."""
    for _ in range(20):
        change = changed.luck.choices(list(CHANGES), list(CHANGES.values()))[0]
        if change(changed):
            return change.__name__.lstrip("_").replace("_", " ")
    return "nothing"


def _attribute(changed: Changed) -> bool:
    """Give an attribute another value: near the old one, or far off."""
    luck, node = changed.luck, changed.node()
    if node is None or not node.attribute:
        return False
    attribute = luck.choice(list(node.attribute))
    if attribute.type == AttributeProto.INT:
        attribute.i = _near(luck, attribute.i)
    elif attribute.type == AttributeProto.INTS and attribute.ints:
        place = luck.randrange(len(attribute.ints))
        attribute.ints[place] = _near(luck, attribute.ints[place])
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = values.number(luck)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = luck.choice(
            (*values.TEXTS, "SAME_LOWER", "nearest", "linear", "cubic", "reflect", "edge", "wrap", "ij->ji")
        ).encode()
    elif attribute.type == AttributeProto.TENSOR:
        return _spoil_tensor(luck, attribute.t)
    else:
        return False
    return True


def _near(luck: random.Random, value: int) -> int:
    low, high = -(1 << 63), (1 << 63) - 1
    drawn = value + luck.choice((-2, -1, 1, 2)) if luck.random() < 0.5 else values.integer(luck)
    return min(max(drawn, low), high)


def _new_attribute(changed: Changed) -> bool:
    """Set an attribute that the operator has in some other model."""
    node = changed.node()
    kin = changed.seeds.operators.get(node.op_type) if node else None
    if node is None or not kin:
        return False
    donor = changed.luck.choice(kin).model().graph.node[-1]
    if not donor.attribute:
        return False
    attribute = changed.luck.choice(list(donor.attribute))
    kept = [entry for entry in node.attribute if entry.name != attribute.name]
    del node.attribute[:]
    node.attribute.extend([*kept, attribute])
    return True


def _rewire(changed: Changed) -> bool:
    """Let a node read another value: later ones make a cycle, none leaves an input out."""
    node = changed.node()
    if node is None or not node.input:
        return False
    node.input[changed.luck.randrange(len(node.input))] = changed.luck.choice([*changed.slots(), "", "nowhere"])
    return True


def _other_operator(changed: Changed) -> bool:
    node = changed.node()
    if node is None:
        return False
    node.op_type = changed.luck.choice(changed.seeds.known)
    return True


def _opset(changed: Changed) -> bool:
    imports = list(changed.model.opset_import)
    for function in changed.model.functions:
        imports.extend(function.opset_import)
    if not imports:
        return False
    changed.luck.choice(imports).version = changed.luck.choice((*range(1, 30), 0, -1, 1 << 62))
    return True


def _bake(changed: Changed) -> bool:
    """Make an input a constant, so that shapes are known, layers are folded and weights packed."""
    fed = [entry for entry in changed.graph.input if entry.name in changed.feeds]
    if not fed:
        return False
    for entry in fed if changed.luck.random() < 0.3 else [changed.luck.choice(fed)]:
        value = changed.feeds.pop(entry.name, None)
        if value is None:  # two inputs of one name
            continue
        if changed.luck.random() < 0.3 and value.dtype.kind in "iuf":
            value = values.poisoned(changed.luck, value)
        changed.graph.initializer.append(numpy_helper.from_array(np.asarray(value), entry.name))
        changed.graph.input.remove(entry)
    return True


def _unbake(changed: Changed) -> bool:
    """Make a constant an input, whose value a run brings."""
    if not changed.graph.initializer:
        return False
    tensor = changed.luck.choice(list(changed.graph.initializer))
    if changed.luck.random() < 0.7:
        changed.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    value = readable(tensor)
    if value is not None:
        changed.feeds[tensor.name] = value
    changed.graph.initializer.remove(tensor)
    return True


def readable(tensor: TensorProto) -> np.ndarray | None:
    """Return the numbers of a tensor, unless an earlier mutation left none."""
    if tensor.data_location == TensorProto.EXTERNAL:
        return None
    try:
        value = numpy_helper.to_array(tensor)
    except Exception:  # whatever a broken tensor makes of it: it is onnx's code that reads, and not what is tested
        return None
    return value if value.dtype.kind in "fiub" else None


def _spoil_tensor(luck: random.Random, tensor: TensorProto) -> bool:
    """Put hostile values into a tensor, or break it."""
    what = luck.randrange(8)
    if what < 4:
        value = readable(tensor)
        if value is None or value.dtype.kind not in "iuf" or not value.size:
            return False
        tensor.CopyFrom(numpy_helper.from_array(values.poisoned(luck, value), tensor.name))
    elif what == 4:
        tensor.raw_data = tensor.raw_data[: luck.randrange(len(tensor.raw_data) + 1)] + luck.randbytes(luck.randrange(5))
    elif what == 5:
        tensor.data_type = luck.choice((*NUMERIC, *range(28)))
    elif tensor.dims and what == 6:
        tensor.dims[luck.randrange(len(tensor.dims))] = values.integer(luck)
    else:
        tensor.dims.extend([luck.choice((1, 1, 0, 2, -1, 1 << 40))] * luck.choice((1, 1, 2, 40, 80)))
    return True


def _initializer(changed: Changed) -> bool:
    if not changed.graph.initializer:
        return False
    return _spoil_tensor(changed.luck, changed.luck.choice(list(changed.graph.initializer)))


def _input_shape(changed: Changed) -> bool:
    """Change the size of an input: symbolic, unknown, zero, another one, or no rank at all."""
    luck = changed.luck
    if not changed.graph.input:
        return False
    entry = luck.choice(list(changed.graph.input))
    shape = entry.type.tensor_type.shape
    what = luck.randrange(7)
    if what == 0:
        entry.type.tensor_type.ClearField("shape")
    elif what == 1:
        shape.dim.add(dim_value=luck.choice((0, 1, 2)))
    elif not shape.dim:
        return False
    elif what == 2:
        del shape.dim[luck.randrange(len(shape.dim))]
    elif what < 5:
        shape.dim[luck.randrange(len(shape.dim))].dim_param = luck.choice(("N", "N", "M", "", "a b"))
    else:
        shape.dim[luck.randrange(len(shape.dim))].dim_value = values.integer(luck)
    return True


def _output_shape(changed: Changed) -> bool:
    if not changed.graph.output:
        return False
    entry = changed.luck.choice(list(changed.graph.output))
    entry.type.tensor_type.ClearField("shape")
    return True


def _types(changed: Changed) -> bool:
    """Give all values of one type another: the same arithmetic in float16, float64 or integers."""
    old, new = changed.luck.choice(NUMERIC[:8]), changed.luck.choice(NUMERIC)
    touched = False
    for entry in (*changed.graph.input, *changed.graph.output, *changed.graph.value_info):
        if entry.type.tensor_type.elem_type == old:
            entry.type.tensor_type.elem_type = new
            touched = True
    dtype = helper.tensor_dtype_to_np_dtype(new)
    for tensor in changed.graph.initializer:
        value = readable(tensor) if tensor.data_type == old and new != TensorProto.STRING else None
        if value is not None:
            with np.errstate(all="ignore"):
                tensor.CopyFrom(numpy_helper.from_array(value.astype(dtype), tensor.name))
    for name, value in changed.feeds.items():
        if value.dtype == helper.tensor_dtype_to_np_dtype(old) and dtype.kind in "fiub":
            with np.errstate(all="ignore"):
                changed.feeds[name] = value.astype(dtype)
    return touched


def _more_outputs(changed: Changed) -> bool:
    """Ask for a value in between, which may be an input, a constant or an output already."""
    slots = changed.slots()
    if not slots:
        return False
    name = changed.luck.choice(slots)
    changed.graph.output.add(name=name).type.tensor_type.elem_type = TensorProto.FLOAT
    return True


def _chain(changed: Changed) -> bool:
    """Let a node of another model read a value of this one, its other inputs as constants."""
    donor = changed.seeds.draw_operator(changed.luck)
    model = donor.model()
    if len(model.graph.node) != 1 or len(changed.graph.node) > 60:
        return False
    node = model.graph.node[0]
    given = {tensor.name: tensor for tensor in model.graph.initializer}
    given |= {name: numpy_helper.from_array(value, name) for name, value in donor.feeds.items()}
    names = [name for name in node.input if name]
    slots = changed.slots()
    if not names or not slots or any(name not in given for name in names[1:]):
        return False
    stamp = f"_{changed.luck.randrange(1000)}"
    joined = next(iter(reversed(slots))) if changed.luck.random() < 0.7 else changed.luck.choice(slots)
    for place, name in enumerate(node.input):
        if name == names[0]:
            node.input[place] = joined
        elif name:
            node.input[place] = name + stamp
    for name in sorted(set(names) - {names[0]}):
        changed.graph.initializer.add().CopyFrom(given[name])
        changed.graph.initializer[-1].name = name + stamp
    for place, name in enumerate(node.output):
        node.output[place] = name + stamp if name else ""
    node.name += stamp
    changed.graph.node.append(node)
    for name in node.output[:2]:
        if name:
            changed.graph.output.add(name=name).type.tensor_type.elem_type = TensorProto.FLOAT
    return True


def _quantize(changed: Changed) -> bool:
    """Put a pair of QuantizeLinear and DequantizeLinear on an edge, with right and wrong scales."""
    luck = changed.luck
    index, node = changed.main_node()
    if node is None or not node.input:
        return False
    place = luck.randrange(len(node.input))
    stamp = f"_q{luck.randrange(1000)}"
    scale = luck.choice((0.02, 0.1, 1.0, 1e-30, 0.0, -0.1, 1e30, float("nan"), float("inf")))
    dtype = luck.choice((np.int8, np.uint8, np.int8, np.uint8, np.int32, np.uint16, np.float32))
    zero = luck.choice((0, 0, 1, 100, 127))
    changed.graph.initializer.append(numpy_helper.from_array(np.asarray(scale, np.float32), "s" + stamp))
    changed.graph.initializer.append(numpy_helper.from_array(np.asarray(zero).astype(dtype), "z" + stamp))
    pair = [
        helper.make_node("QuantizeLinear", [node.input[place], "s" + stamp, "z" + stamp], ["q" + stamp]),
        helper.make_node("DequantizeLinear", ["q" + stamp, "s" + stamp, "z" + stamp], ["d" + stamp]),
    ]
    node.input[place] = luck.choice(("d", "d", "d", "q")) + stamp
    nodes = list(changed.graph.node)
    del changed.graph.node[:]
    changed.graph.node.extend([*nodes[:index], *pair, *nodes[index:]])
    return True


def _external_tensor(changed: Changed) -> bool:
    """Move a constant out of the model, to where it is or is not."""
    luck = changed.luck
    if not changed.graph.initializer:
        return False
    tensor = luck.choice(list(changed.graph.initializer))
    for name in ("raw_data", "float_data", "int32_data", "int64_data"):
        if luck.random() < 0.9:
            tensor.ClearField(name)
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    tensor.external_data.add(key="location", value=luck.choice(LOCATIONS))
    numbers = ("0", "64", "4", str(LOCATION_BYTES), "-1", str(1 << 62), "1e3", "٣", "", "9" * 30)
    for key in ("offset", "length", "checksum", "location"):
        if luck.random() < 0.3:
            tensor.external_data.add(key=key, value=luck.choice(numbers))
    return True


def _of_main_node(change: Callable[[Changed, NodeProto], None]) -> Callable[[Changed], bool]:
    """Change the node that is drawn, where there is one."""

    def applied(changed: Changed) -> bool:
        _, node = changed.main_node()
        if node is None:
            return False
        change(changed, node)
        return True

    return applied


@_of_main_node
def _into_function(changed: Changed, node: NodeProto) -> None:
    """Move a node into a function; now and then the function calls itself, or the same twice."""
    luck = changed.luck
    name = f"f{luck.randrange(1000)}"
    inner = NodeProto()
    inner.CopyFrom(node)
    inputs, outputs = list(dict.fromkeys(filter(None, node.input))), list(dict.fromkeys(filter(None, node.output)))
    body = [inner]
    if luck.random() < 0.2:
        body.append(helper.make_node(name, inputs, [f"again{i}" for i in range(len(outputs))], domain="fuzz"))
    imports = [*changed.model.opset_import, helper.make_opsetid("fuzz", 1)]
    changed.model.functions.append(helper.make_function("fuzz", name, inputs, outputs, body, imports))
    changed.model.opset_import.append(helper.make_opsetid("fuzz", 1))
    node.CopyFrom(helper.make_node(name, inputs, outputs, domain="fuzz"))
    changed.model.ir_version = max(changed.model.ir_version, 8)


@_of_main_node
def _into_branch(changed: Changed, node: NodeProto) -> None:
    """Move a node into both branches of an If, or a Loop, with a constant or input condition."""
    luck = changed.luck
    stamp = f"_if{luck.randrange(1000)}"
    outputs = list(node.output)
    branches = []
    for side in "ab":
        inner = NodeProto()
        inner.CopyFrom(node)
        for place, name in enumerate(inner.output):
            inner.output[place] = name + stamp + side if name else ""
        ends = [helper.make_empty_tensor_value_info(name) for name in inner.output if name]
        branches.append(helper.make_graph([inner], side, [], ends))
    if luck.random() < 0.3:
        branches[1].node[0].op_type = luck.choice(changed.seeds.known)
    condition = "condition" + stamp
    if luck.random() < 0.5:
        changed.graph.initializer.append(numpy_helper.from_array(np.asarray(luck.random() < 0.5), condition))
    else:
        changed.graph.input.append(helper.make_tensor_value_info(condition, TensorProto.BOOL, []))
    node.CopyFrom(helper.make_node("If", [condition], outputs, then_branch=branches[0], else_branch=branches[1]))


def _shuffle(changed: Changed) -> bool:
    """Order the nodes otherwise, or leave some out."""
    nodes = list(changed.graph.node)
    if len(nodes) < 2:
        return False
    changed.luck.shuffle(nodes)
    del changed.graph.node[:]
    changed.graph.node.extend(nodes[: changed.luck.choice((len(nodes), len(nodes), len(nodes) - 1))])
    return True


def _repeat_input(changed: Changed) -> bool:
    """Give a node more inputs or outputs than it takes."""
    node = changed.node()
    if node is None:
        return False
    names = changed.luck.choice((node.input, node.output))
    names.extend(list(names[:1] or ["more"]) * changed.luck.choice((1, 1, 3, 100)))
    return True


CHANGES: dict[Callable[[Changed], bool], int] = {
    _attribute: 8, _new_attribute: 3, _rewire: 3, _other_operator: 3, _opset: 2, _bake: 6, _unbake: 3, _initializer: 6,
    _input_shape: 6, _output_shape: 2, _types: 4, _more_outputs: 3, _chain: 8, _quantize: 3, _external_tensor: 1,
    _into_function: 1, _into_branch: 2, _shuffle: 1, _repeat_input: 1,
}  # fmt: skip
"""How often each is drawn."""
