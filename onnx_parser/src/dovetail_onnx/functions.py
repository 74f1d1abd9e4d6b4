"""Expand operators defined by others: functions of the model, and those of ONNX's own schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dovetail.graph.expressions import Expression

from .malformed import malformed
from .messages import AttributeProto, FunctionProto, NodeProto

if TYPE_CHECKING:
    from onnx import defs


def schema_of(op: str, opset: int, domain: str) -> defs.OpSchema | None:
    """Return the schema of an operator, if ONNX has one."""
    from onnx import defs  # which imports all of onnx; most models have no operator that must be looked up

    try:
        return defs.get_schema(op, max_inclusive_version=opset, domain=domain)
    except defs.SchemaError:
        return None


def schema_function(
    node: NodeProto,
    attributes: Mapping[str, AttributeProto],
    opset: int,
    domain: str,
    input_types: Callable[[], Sequence[bytes]],
) -> FunctionProto | None:
    """Return the body that ONNX itself gives an operator, or None.

    Args:
        node: The node; some bodies depend on its attributes.
        attributes: Those, references resolved.
        opset: Version of its operator set.
        domain: Its domain.
        input_types: Types of its inputs, encoded, asked for only where the body depends on them.
    """
    schema: Any = schema_of(node.op_type, opset, domain)  # what is asked of it here is missing from its stubs
    if schema is None:
        return None
    versions = [version for version in schema.function_opset_versions if version <= opset]
    if versions:
        return FunctionProto.read(_bytes(schema.get_function_with_opset_version(max(versions))))
    versions = [version for version in schema.context_dependent_function_opset_versions if version <= opset]
    if not versions:
        return None
    types = list(input_types())
    try:
        body = schema.get_context_dependent_function_with_opset_version(max(versions), _call(node, attributes), types)
    except MemoryError:
        raise
    except Exception as error:  # of protobuf or of ONNX's C++, which name no common class
        raise ValueError(f"ONNX cannot say what it is made of: {error}") from error
    return FunctionProto.read(_bytes(body))


def _call(node: NodeProto, attributes: Mapping[str, AttributeProto]) -> bytes:
    """Encode a node with these attributes."""
    from onnx import NodeProto as EncodedNode

    call = EncodedNode.FromString(node.encoded)
    del call.attribute[:]
    for name, attribute in attributes.items():
        added = call.attribute.add()
        added.ParseFromString(attribute.encoded)
        added.name = name
    return call.SerializeToString()


def encoded_type(code: int, shape: Sequence[object] | None) -> bytes:
    """Encode the type of a tensor whose sizes may be expressions; None: its shape is not known."""
    from onnx import TypeProto as EncodedType

    described = EncodedType()
    described.tensor_type.elem_type = code
    if shape is not None:
        described.tensor_type.shape.SetInParent()
        for size in shape:
            dimension = described.tensor_type.shape.dim.add()
            if isinstance(size, int):
                dimension.dim_value = size
            elif isinstance(size, Expression) and size.is_known:
                dimension.dim_param = str(size)
    return described.SerializeToString()


def is_function(op: str, opset: int, domain: str) -> bool:
    """Tell whether ONNX itself gives an operator a body."""
    schema: Any = schema_of(op, opset, domain)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def _bytes(body: Any) -> bytes:
    """Bridge versions of onnx, which hand a body out as a message or as its bytes."""
    return body if isinstance(body, bytes) else bytes(body.SerializeToString())


def bound_attributes(
    function: FunctionProto, given: dict[str, AttributeProto], schema: defs.OpSchema | None
) -> dict[str, AttributeProto]:
    """Return the attributes that a body may refer to: those of the call, else the defaults."""
    bound = {attribute.name: attribute for attribute in function.attribute_proto}
    if schema is not None:
        defaults = {name: described.default_value for name, described in schema.attributes.items()}
        bound |= {name: AttributeProto.read(one.SerializeToString()) for name, one in defaults.items() if one.name}
    return bound | given


def resolve_references(node: NodeProto, bound: dict[str, AttributeProto] | None, reader: str) -> dict[str, AttributeProto]:
    """Return a node's attributes by name, references replaced by what they refer to.

    A reference to nothing is left out.

    Args:
        node: The node.
        bound: Attributes of the function around it; None if there is none.
        reader: How to call the node in messages.

    Raises:
        ModelError: An attribute refers to one of a function, and the node is in none.
    """
    resolved: dict[str, AttributeProto] = {}
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            resolved[attribute.name] = attribute
        elif bound is None:
            raise malformed(
                f"{reader}: attribute {attribute.name!r} refers to attribute {attribute.ref_attr_name!r} of a function, "
                "and the node is in none",
                hint="check the file with onnx.checker, or export the model again",
            )
        elif attribute.ref_attr_name in bound:
            resolved[attribute.name] = bound[attribute.ref_attr_name]  # not a copy: it may be large, and referred to often
    return resolved
