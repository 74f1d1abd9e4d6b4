"""Translate a `ModelProto` to a `Network`: names, scopes, functions, and what is not supported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from dovetail import GraphError, ModelError, Network
from dovetail.graph.layer import OutputSlot
from dovetail.graph.symbolic_inference import SymbolicInference
from dovetail.ground.making import Making
from dovetail.ground.registered_translations import Registration

from .expansion import Expansion, function_key
from .external_data import ExternalData
from .functions import bound_attributes, encoded_type, is_function, resolve_references, schema_function, schema_of
from .malformed import malformed
from .messages import AttributeProto, FunctionProto, ModelProto, NodeProto, SparseTensorProto, ValueInfoProto
from .metadata import metadata_of
from .model_file import LOW_LEVEL_ERRORS, ModelFile
from .node import Node
from .ordering import sorted_nodes
from .own_operators import first_of_own
from .registry import NEWEST_OPSET, Operator, find, is_known
from .scope import MISSING, Found, Initializer, Missing, Scope, imported, plain_domain
from .tensors import CODES, MAX_AXES, Bytes, FoundTensor, dtype_of_code, find_tensor, read_sparse
from .unsupported import Entry, Unsupported, Untranslated, report
from .wire import WireError


def translate(model: ModelFile, external: ExternalData) -> Network:
    """Return the network of a model.

    Raises:
        UnsupportedModelError: Lists everything that dovetail does not have.
        ModelError: The model contradicts itself.
    """
    network = _Translation(model.proto, external, model.origin, model.cut).run()
    if model.proto.metadata_props:
        from .class_names import meanings  # few models have any

        network.meanings = meanings(network.metadata, [layer.name for layer in network.outputs])
    return network


class _Translation:
    def __init__(self, model: ModelProto, external: ExternalData, origin: str, cut: Mapping[int, Bytes]) -> None:
        self._graph = model.graph
        self._cut = cut
        self._external = external
        self._origin = origin
        self._network = Network(model.graph.name or "network")
        self._network.metadata = metadata_of(model)
        self._inference = SymbolicInference()
        self._making = Making()
        self._opsets = imported(model.opset_import) or {"": 1}
        self._functions = {function_key(f.domain, f.name, f.overload): f for f in model.functions}
        self._unsupported: list[Entry] = []
        self._untranslated: tuple[str, str] | None = None
        self._reserved = {entry.name for entry in (*model.graph.input, *model.graph.output)}

    def run(self) -> Network:
        version = self._opsets.get("", 0)
        if version > NEWEST_OPSET:
            reason = f"operator set {version} is newer than {NEWEST_OPSET}, the newest known"
            self._note("graph", "", version, self._graph.name, reason)
            raise report(self._unsupported, self._origin)
        self._expansion = Expansion(self._graph, self._functions, self._origin)
        scope = Scope(self._opsets)
        scope.bind_initializers(self._graph, self._cut)
        self._add_inputs(scope)
        self._translate_nodes(self._graph.node, scope)
        self._add_outputs(scope)
        if self._unsupported:
            raise report(self._unsupported, self._origin, self._untranslated)
        return self._network

    @cached_property
    def _declared_ranks(self) -> dict[str, int]:
        """Ranks that the model states, for tensors whose sizes do not follow while parsing."""
        try:
            return {
                entry.name: len(entry.type.tensor_type.shape.dim)
                for entry in self._graph.value_info
                if entry.type.tensor_type.has("shape") and len(entry.type.tensor_type.shape.dim) <= MAX_AXES
            }
        except WireError as error:
            raise self._malformed(f"states types that cannot be read: {error}") from error

    # -- the graph's ends --------------------------------------------------------------------------

    def _add_inputs(self, scope: Scope) -> None:
        dimensions = {d.dim_param for entry in self._graph.input for d in entry.type.tensor_type.shape.dim}
        seen: set[str] = set()
        for entry in self._graph.input:
            if entry.name in scope.initializers:
                continue
            if not entry.name or entry.name in seen:
                raise self._malformed(f"has two inputs called {entry.name!r}" if entry.name else "has an input without a name")
            seen.add(entry.name)
            try:
                scope.values[entry.name] = self._add_input(entry, dimensions)
            except Unsupported as problem:
                scope.values[entry.name] = MISSING
                self._note("graph input", "", self._opsets.get("", 0), entry.name, problem.reason, problem.attribute)

    def _add_input(self, entry: ValueInfoProto, taken: set[str]) -> OutputSlot:
        what = f"input {entry.name!r}"
        if entry.type.kind != "tensor_type":
            kind = entry.type.kind or "of no type"
            raise Unsupported(f"{what} is {kind.replace('_type', '')}, not a tensor", attribute="type")
        tensor = entry.type.tensor_type
        dtype = dtype_of_code(tensor.elem_type, what)
        if not tensor.has("shape"):
            raise Unsupported(f"{what} has no shape: not even its rank is stated", attribute="shape")
        shape: list[int | str] = []
        for axis, dimension in enumerate(tensor.shape.dim):
            if dimension.has("dim_value") and dimension.dim_value >= 0:
                shape.append(dimension.dim_value)
            else:
                # Some exporters write -1 for what they do not know.
                symbol = dimension.dim_param or _fresh(f"{entry.name}_dim{axis}", taken)
                taken.add(symbol)
                shape.append(symbol)
        return self._network.input(entry.name, shape, dtype)

    def _add_outputs(self, scope: Scope) -> None:
        found = [(entry.name, self._look_up(entry.name, scope, f"output {entry.name!r}")) for entry in self._graph.output]
        if self._unsupported:
            return
        inputs = {layer.name for layer in self._network.inputs}
        for name, slot in found:
            if slot is None or isinstance(slot, Missing):
                raise self._malformed(f"has an output {name!r} that nothing produces")
            if name in inputs:
                self._note("graph output", "", self._opsets.get("", 0), name, "an input has the same name", "name")
                continue
            if name in self._network:
                holder = self._network.layer(name)
                if not holder.outputs:
                    raise self._malformed(f"has two outputs called {name!r}")
                self._network.rename(holder, f"{name}/{holder.kind.rsplit('.', 1)[-1]}")
            self._network.output(slot, name)

    # -- tensors by name ---------------------------------------------------------------------------

    def _look_up(self, name: str, scope: Scope, reader: str) -> Found:
        if not name:
            return None
        current: Scope | None = scope
        while current is not None:
            if name in current.values:
                return current.values[name]
            if name in current.initializers:
                slot = current.values[name] = self._add_initializer(name, current.initializers[name], current)
                return slot
            current = current.parent
        raise malformed(
            f"{reader} reads {name!r}, which no input, initializer or earlier node provides",
            hint="nodes must stand in topological order; check the model with onnx.checker",
            tensor=name,
        )

    def _add_initializer(self, name: str, proto: Initializer, scope: Scope) -> OutputSlot | Missing:
        try:
            if isinstance(proto, SparseTensorProto):
                found = FoundTensor(*read_sparse(proto, self._external, self._making))
            else:
                found = find_tensor(proto, self._external, scope.cut.get(name))
        except Unsupported as problem:
            self._note("initializer", "", scope.opsets.get("", 0), scope.named(name), problem.reason, problem.attribute)
            return MISSING
        return self._network.constant(found.value, self._free_name(scope.named(name)), dtype=found.dtype)

    def _free_name(self, preferred: str) -> str:
        """Return a name that leaves the names of the graph's inputs and outputs alone."""
        return f"{preferred}/value" if preferred in self._reserved else preferred

    # -- nodes -------------------------------------------------------------------------------------

    def _translate_nodes(self, nodes: Sequence[NodeProto], scope: Scope) -> None:
        for proto in sorted_nodes(nodes):
            label = self._label(proto, scope)
            domain = plain_domain(proto.domain)
            opset = scope.opsets.get(domain, 0)
            for name in proto.output:
                if name and name in scope.values:
                    raise malformed(
                        f"node {label!r} ({proto.op_type}) writes {name!r}, which is there already",
                        hint="every tensor is written once; check the model with onnx.checker",
                        node=label,
                    )
            try:
                results = self._translate_node(proto, domain, opset, label, scope)
            except Unsupported as problem:
                self._note(proto.op_type, domain, opset, label, problem.reason, problem.attribute)
                if isinstance(problem, Untranslated):
                    self._untranslated = self._untranslated or (domain, proto.op_type)
                results = None
            except GraphError as error:
                error.details.setdefault("node", label)
                raise
            except LOW_LEVEL_ERRORS as error:
                raise malformed(
                    f"node {label!r} ({proto.op_type}, opset {opset}) is malformed: {type(error).__name__}: {error}",
                    hint=f"see the specification of {proto.op_type}",
                    node=label,
                ) from error
            self._bind_outputs(proto, results, scope)

    def _label(self, proto: NodeProto, scope: Scope) -> str:
        label = scope.named(proto.name or next((o for o in proto.output if o), proto.op_type))
        return f"{label}/{proto.op_type}" if label in self._reserved else label

    def _bind_outputs(self, proto: NodeProto, results: Sequence[Found] | None, scope: Scope) -> None:
        for index, name in enumerate(proto.output):
            if not name:
                continue
            slot = results[index] if results is not None and index < len(results) else None
            scope.values[name] = slot if slot is not None else MISSING
            if isinstance(slot, OutputSlot) and slot.info is None and scope.parent is None and name in self._declared_ranks:
                self._inference.declare_rank(slot, self._declared_ranks[name])

    def _translate_node(self, proto: NodeProto, domain: str, opset: int, label: str, scope: Scope) -> Sequence[Found] | None:
        reader = f"node {label!r} ({proto.op_type})"
        inputs = [self._look_up(name, scope, reader) for name in proto.input]
        attributes = resolve_references(proto, scope.bound, reader)
        self._expansion.count(proto, attributes.values())
        local = self._functions.get((domain, proto.op_type, proto.overload))
        if local is not None:
            bound = bound_attributes(local, attributes, None)
            return self._expand(proto, local, inputs, bound, imported(local.opset_import), label, scope)
        if domain not in scope.opsets:
            raise Unsupported(f"the model does not say which operator set of domain {domain or 'ai.onnx'!r} it uses")
        if proto.op_type == "If" and not domain:
            return self._choose(proto, opset, label, inputs, attributes, scope)
        known = find(domain, proto.op_type, opset)
        if known is None:
            return self._expand_schema(proto, domain, opset, label, inputs, attributes, scope)
        slots = [slot for slot in inputs if not isinstance(slot, Missing)]
        if len(slots) != len(inputs):
            return None
        node = Node(proto, opset, label, slots, attributes, self._network, self._inference, self._making, self._external)
        before = len(self._network)
        listed = self._translated(known, node)
        unread = node.unread()
        if unread:
            raise Unsupported(f"attribute {unread[0]!r} is not known", attribute=unread[0])
        self._attribute_sources(before, label)
        for index in range(len(node.outputs)):
            if node.wants(index) and (index >= len(listed) or listed[index] is None):
                formal = _output_name(proto, opset, domain, index)
                raise Unsupported(f"output {index} ({formal or proto.output[index]}) is not there", attribute=formal)
        return listed

    def _translated(self, known: Operator | Registration, node: Node) -> Sequence[OutputSlot | None]:
        if isinstance(known, Registration):
            from .own_calls import call_own  # most models have no such operator

            self._network.is_read_with_others = True
            return call_own(known, node)
        results = known.translate(node)
        node.ignore(*known.ignored)
        return [results] if isinstance(results, OutputSlot) else list(results)

    def _attribute_sources(self, before: int, label: str) -> None:
        """Name the node in every layer that it became; profile and errors use the model's names."""
        if label in self._network:
            for layer in self._network.newest(len(self._network) - before):
                layer.sources = (label,)

    # -- nesting -----------------------------------------------------------------------------------

    def _expand_schema(
        self,
        proto: NodeProto,
        domain: str,
        opset: int,
        label: str,
        inputs: Sequence[Found],
        attributes: dict[str, AttributeProto],
        scope: Scope,
    ) -> Sequence[Found] | None:
        if is_known(domain, proto.op_type):
            raise Unsupported(f"operator set {opset} of it is too old")
        missing = any(isinstance(slot, Missing) for slot in inputs)
        function = None
        if not missing:
            function = schema_function(proto, attributes, opset, domain, lambda: [self._type_of(slot) for slot in inputs])
        if function is None:
            if missing and is_function(proto.op_type, opset, domain):
                return None
            first = first_of_own(domain, proto.op_type)
            if first is not None:
                raise Untranslated(f"its translation is registered from operator set {first} on")
            unknown = schema_of(proto.op_type, opset, domain) is None
            raise Untranslated(
                "no function is registered for it"
                if domain
                else "ONNX has no such operator"
                if unknown
                else "dovetail has no translation of it"
            )
        # Some bodies of ONNX's own do not say which operator set they mean: it is the model's.
        opsets = dict(scope.opsets) | imported(function.opset_import)
        bound = bound_attributes(function, attributes, schema_of(proto.op_type, opset, domain))
        return self._expand(proto, function, inputs, bound, opsets, label, scope)

    def _expand(
        self,
        proto: NodeProto,
        function: FunctionProto,
        inputs: Sequence[Found],
        bound: dict[str, AttributeProto],
        opsets: Mapping[str, int],
        label: str,
        scope: Scope,
    ) -> list[Found]:
        inner = scope.call(label, opsets, bound)
        if len(inputs) > len(function.input):
            raise malformed(
                f"node {label!r} hands {len(inputs)} inputs to function {function.name!r}, which has {len(function.input)}",
                hint="check the model with onnx.checker",
                node=label,
            )
        for index, name in enumerate(function.input):
            inner.values[name] = inputs[index] if index < len(inputs) else None
        self._translate_nodes(function.node, inner)
        return [self._function_output(name, index, proto, inner) for index, name in enumerate(function.output)]

    def _function_output(self, name: str, index: int, proto: NodeProto, inner: Scope) -> Found:
        # Bodies that depend on the node leave out what the node does not ask for.
        if index >= len(proto.output) or not proto.output[index]:
            return None
        return self._look_up(name, inner, f"function {proto.op_type!r}")

    def _choose(
        self,
        proto: NodeProto,
        opset: int,
        label: str,
        inputs: Sequence[Found],
        attributes: dict[str, AttributeProto],
        scope: Scope,
    ) -> list[Found] | None:
        """Translate If: the branch that a constant condition takes, else both.

        The optimizer chooses once it knows.
        """
        if any(isinstance(slot, Missing) for slot in inputs):
            return None
        slots = [slot for slot in inputs if not isinstance(slot, Missing)]
        node = Node(proto, opset, label, slots, attributes, self._network, self._inference, self._making, self._external)
        condition = node.number(0)
        if condition is not None:
            return self._branch(node, "then_branch" if condition else "else_branch", label, scope)
        with self._network.deferring():  # what does not fit in a branch matters only if that is taken
            then, other = (self._branch(node, name, f"{label}/{name}", scope) for name in ("then_branch", "else_branch"))
        results: list[Found] = []
        for index, (a, b) in enumerate(zip(then, other, strict=True)):
            if not isinstance(a, OutputSlot) or not isinstance(b, OutputSlot):
                return None
            if node.dtype_of(a) is not node.dtype_of(b):
                raise node.malformed(f"has branches whose output {index} is {node.dtype_of(a)} and {node.dtype_of(b)}")
            name = label if len(then) == 1 else f"{label}/{index}"
            results.append(self._network.conditional(node.input(0), a, b, name=name))
        return results

    def _branch(self, node: Node, name: str, label: str, scope: Scope) -> list[Found]:
        graph = node.graph(name)
        if len(graph.output) != len(node.outputs):
            raise node.malformed(f"has {len(node.outputs)} outputs, but its {name} has {len(graph.output)}")
        inner = scope.branch(label, graph)
        self._translate_nodes(graph.node, inner)
        return [self._look_up(entry.name, inner, f"branch of {label!r}") for entry in graph.output]

    def _type_of(self, slot: Found) -> bytes:
        if not isinstance(slot, OutputSlot):
            return b""
        info, dtype = self._inference.info(slot), self._inference.dtype(slot)
        if dtype is None:
            raise Unsupported(f"the element type of {slot.name!r} is not known before the symbolic dimensions are fixed")
        return encoded_type(CODES[dtype], None if info is None else info.shape)

    # -- trouble -----------------------------------------------------------------------------------

    def _note(self, op: str, domain: str, opset: int, node: str, reason: str, attribute: str | None = None) -> None:
        self._unsupported.append(Entry(op=op, domain=domain, opset=opset, node=node, reason=reason, attribute=attribute))

    def _malformed(self, found: str) -> ModelError:
        return malformed(f"{self._origin} {found}", hint="check the model with onnx.checker")


def _fresh(preferred: str, taken: set[str]) -> str:
    while preferred in taken:
        preferred += "_"
    return preferred


def _output_name(proto: NodeProto, opset: int, domain: str, index: int) -> str | None:
    schema = schema_of(proto.op_type, opset, domain)
    return schema.outputs[index].name if schema is not None and index < len(schema.outputs) else None
