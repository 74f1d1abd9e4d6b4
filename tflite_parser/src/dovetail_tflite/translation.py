"""Translate the subgraphs of a file to a `Network`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from dovetail import GraphError, ModelError, Network
from dovetail.graph.layer import Layer, OutputSlot
from dovetail.graph.symbolic_inference import SymbolicInference
from dovetail.ground.limits import budget, watched
from dovetail.ground.records import NamedTuple
from dovetail.ground.registered_translations import Registration

from .call import Call
from .expansion import Expansion
from .flatbuffer import BrokenFile, Table, Tables, said
from .malformed import malformed
from .metadata import meanings, metadata_of
from .model_file import LOW_LEVEL_ERRORS, ModelFile
from .operators import OF_RESOURCES
from .own_operators import find_own, newest_of_own
from .registry import Operator, find
from .schema import OPERATORS, OPTIONS, OPTIONS_2
from .scope import MISSING, Found, Missing, Scope
from .signatures import Entry, entry_of
from .tensors import Tensor, read_tensor
from .unsupported import Entry as Unknown
from .unsupported import NotTranslated, Unsupported, Untranslated, report
from .variables import Variable, Variables, first_value

_CUSTOM = "CUSTOM"
_NEWER = OPERATORS.index("PLACEHOLDER_FOR_GREATER_OP_CODES")
"""Codes from here on do not fit the byte that older readers look at."""


class _Code(NamedTuple):
    """An entry of the table of operators that a file uses."""

    name: str
    version: int
    is_custom: bool


def translate(file: ModelFile, signature: str | None = None) -> Network:
    """Return the network of a model's first subgraph, or of that of a signature.

    Raises:
        UnsupportedModelError: Lists everything that dovetail does not have.
        ModelError: The model contradicts itself, or has no such signature.
    """
    return Translation(file, entry_of(file, signature)).run()


class Translation:
    """A model under translation; operators that have subgraphs ask it for these."""

    def __init__(self, file: ModelFile, entry: Entry) -> None:
        self._file = file
        self._entry = entry
        main = file.subgraphs[entry.subgraph]
        self._network = Network(main.text("name") or "network")
        self._network.metadata = metadata_of(file)
        self._inference = SymbolicInference()
        self._codes = self._read_codes(file.root.tables("operator_codes"))
        self._unsupported: list[Unknown] = []
        self._untranslated: tuple[str, bool] | None = None
        self._main = Scope(entry.subgraph, main)
        self._expansion = Expansion(file)
        self._attributed: set[Layer] = set()
        self._variables = Variables(self._network)
        self._is_first_run = False  # while the subgraph is translated that runs once before all others

    def run(self) -> Network:
        """Translate the subgraph, under the names of its signature."""
        scope = self._main
        self._add_inputs(scope)
        self._translate_operators(scope)
        self._add_outputs(scope)
        if self._unsupported:
            raise report(self._unsupported, self._file.origin, self._untranslated)
        self._variables.keep()
        hidden = {name for state in self._network.states.values() for name in (state.name, state.output)}
        ends = (
            [layer.name for layer in end if layer.name not in hidden] for end in (self._network.inputs, self._network.outputs)
        )
        self._network.meanings = meanings(self._file, self._entry.subgraph, *ends)
        return self._network

    @staticmethod
    def _read_codes(table: Tables) -> list[_Code]:
        found = []
        for index in range(len(table)):
            entry = table[index]
            old, new = entry.number("deprecated_builtin_code"), entry.number("builtin_code")
            code = new if old >= _NEWER else max(old, new)
            name = OPERATORS[code] if 0 <= code < len(OPERATORS) else f"builtin {code}"
            custom = name == _CUSTOM
            found.append(_Code(entry.text("custom_code") if custom else name, entry.number("version"), custom))
        return found

    # -- the graph's ends --------------------------------------------------------------------------

    def _add_inputs(self, scope: Scope) -> None:
        numbers = scope.table.numbers("inputs")
        budget().take_layers(len(numbers), f"subgraph {scope.index} of {self._file.origin}")
        named = self._entry.inputs or [""] * len(numbers)
        for place, number in enumerate(numbers):
            try:
                tensor = self._tensor(scope, number)
                wanted = named[place] or tensor.name or f"input_{place}"
                name = self._network.unique_name(wanted)
                if number in scope.values:
                    raise self._malformed(f"has tensor {name!r} as two inputs")
                scope.values[number] = self._network.input(name, _opened(tensor.shape, name), tensor.dtype, tensor.quantization)
            except Unsupported as problem:
                scope.values[number] = MISSING
                self._note("input", 1, f"input {place}", problem.reason)

    def _add_outputs(self, scope: Scope) -> None:
        found = []
        numbers = scope.table.numbers("outputs")
        budget().take_layers(len(numbers), f"subgraph {scope.index} of {self._file.origin}")
        named = self._entry.outputs or [""] * len(numbers)
        for place, number in enumerate(numbers):
            slot = self._slot(scope, number, f"output {place}")
            name = scope.known[number].name if number in scope.known else ""
            found.append((named[place] or name or f"output_{place}", slot))
        if self._unsupported:
            return
        if not found:
            raise self._malformed("has no outputs")
        inputs = {layer.name for layer in self._network.inputs}
        seen: set[str] = set()
        for name, slot in found:
            if not isinstance(slot, OutputSlot):
                raise self._malformed(f"has an output {name!r} that nothing produces")
            label = name
            if label in inputs or label in seen:
                label = self._network.unique_name(f"{name}_output")
            elif label in self._network:
                holder = self._network.layer(label)
                self._network.rename(holder, f"{label}/{holder.kind.rsplit('.', 1)[-1]}")
            seen.add(label)
            self._network.output(slot, label)

    # -- tensors -----------------------------------------------------------------------------------

    def _tensor(self, scope: Scope, number: int) -> Tensor:
        found = scope.known.get(number)
        if found is None:
            if not 0 <= number < len(scope.tensors):
                raise self._malformed(f"refers to tensor {number} of {len(scope.tensors)}")
            found = scope.known[number] = read_tensor(self._file, scope.tensors[number], number)
        return found

    def _slot(self, scope: Scope, number: int, reader: str) -> Found:
        """Return where a tensor comes from; -1 stands for one that is left out."""
        if number == -1:
            return None
        if number in scope.values:
            return scope.values[number]
        try:
            tensor = self._tensor(scope, number)
        except Unsupported as problem:
            self._note("tensor", 1, reader, problem.reason)
            scope.values[number] = MISSING
            return MISSING
        value = tensor.value
        if value is None and 0 in tensor.shape and -1 not in tensor.shape:
            value = np.empty(tensor.shape, tensor.dtype.numpy)  # no element, so that no buffer holds any
        if value is None and tensor.is_variable:  # which is asked for anew each time: operators write it
            return self._variables.of_tensor(scope.index, number, scope.named(tensor.name or f"tensor_{number}")).read(tensor)
        if value is None:
            raise self._malformed(f"has {reader} read tensor {tensor.name or number!r}, which nothing writes before it")
        name = scope.named(tensor.name or f"tensor_{number}")
        slot = self._network.constant(
            value, self._network.unique_name(name), dtype=tensor.dtype, quantization=tensor.quantization, copy=False
        )
        scope.values[number] = slot
        return slot

    # -- operators ---------------------------------------------------------------------------------

    def _translate_operators(self, scope: Scope) -> None:
        operators = scope.table.tables("operators")
        budget().take_layers(len(operators), f"subgraph {scope.index} of {self._file.origin}")
        for index in watched(range(len(operators))):
            table = operators[index]
            code = self._code(table)
            outputs = table.numbers("outputs")
            label = self._label(scope, code, outputs, index)
            try:
                results = self._translate_operator(scope, table, code, outputs, label)
            except Unsupported as problem:
                self._note(code.name, code.version, label, problem.reason)
                if isinstance(problem, Untranslated):
                    self._untranslated = self._untranslated or (code.name, code.is_custom)
                results = [MISSING] * len(outputs)
            except NotTranslated:
                results = [MISSING] * len(outputs)
            except GraphError as error:
                error.details.setdefault("node", label)
                raise
            except ModelError:
                raise
            except LOW_LEVEL_ERRORS as error:
                raise malformed(
                    f"operator {code.name} (version {code.version}) of {label!r} is malformed: {said(error)}",
                    node=label,
                ) from error
            for number, slot in zip(outputs, results, strict=True):
                if number == -1:  # left out
                    continue
                if number in scope.values:
                    raise self._malformed(f"writes tensor {number} twice, the second time by {label!r}")
                scope.values[number] = slot

    def _code(self, table: Table) -> _Code:
        number: int = table.number("opcode_index")
        if number >= len(self._codes):
            raise self._malformed(f"has an operator of code {number} of {len(self._codes)}")
        code: _Code = self._codes[number]
        return code

    def _label(self, scope: Scope, code: _Code, outputs: Sequence[int], index: int) -> str:
        name = ""
        if outputs and 0 <= outputs[0] < len(scope.tensors):
            name = scope.tensors[outputs[0]].text("name")
        return scope.named(name or f"{code.name.lower()}_{index}")

    def _translate_operator(
        self, scope: Scope, table: Table, code: _Code, outputs: Sequence[int], label: str
    ) -> Sequence[Found]:
        numbers = table.numbers("inputs")
        reader = f"operator {code.name} of {label!r}"
        if code.name in OF_RESOURCES and not code.is_custom:
            return self._translate_resource(scope, code.name, _options(table), numbers, outputs, reader)
        known = self._found(code)
        if not outputs and code.name not in _WITHOUT_RESULTS and not code.is_custom:
            raise malformed(f"operator {code.name} (version {code.version}) of {label!r} has no outputs", node=label)
        slots = [self._slot(scope, number, reader) for number in numbers]
        declared = [scope.known.get(number) for number in numbers]
        results = [self._tensor(scope, number) for number in outputs]
        if any(isinstance(slot, Variable) for slot in slots):
            raise Unsupported("it reads a resource")
        inputs = [slot for slot in slots if not isinstance(slot, Missing | Variable)]
        if len(inputs) != len(slots):
            return [MISSING] * len(outputs)
        call = Call(
            code.name,
            code.version,
            label,
            _options(table),
            table.vector("custom_options").tobytes(),
            inputs,
            declared,
            results,
            self._network,
            self._inference,
            partial(self._inline, scope),
            partial(self._write_tensor, scope, numbers),
            partial(self._intermediate, scope, table.numbers("intermediates")),
            self._file.making,
        )
        before = len(self._network)
        if isinstance(known, Registration):
            from .own_calls import call_own  # most models have no such operator

            self._network.is_read_with_others = True
            own = call_own(known, call)
            self._attribute_sources(before, label)
            return own
        found = known.translate(call)
        listed = [found] if isinstance(found, OutputSlot) else list(found)
        self._attribute_sources(before, label)
        if len(listed) != len(outputs):
            raise call.malformed(f"has {len(outputs)} outputs, expected {len(listed)}")
        for slot, stated in zip(listed, results, strict=True):
            if call.dtype_of(slot) is not stated.dtype:
                raise call.malformed(f"gives {call.dtype_of(slot)}, but the file says {stated.dtype}")
        return listed

    @staticmethod
    def _found(code: _Code) -> Operator | Registration:
        own = find_own(code.name, code.version, is_custom=code.is_custom)
        if own is not None:
            return own
        known = find(code.name, custom=code.is_custom)
        if known is None:
            newest = newest_of_own(code.name, is_custom=code.is_custom)
            if newest is not None:
                raise Untranslated(f"its translation is registered up to version {newest}")
            what = "dovetail has no translation of this custom operator" if code.is_custom else "dovetail does not have it"
            raise (Untranslated if code.is_custom or code.name in OPERATORS else Unsupported)(what)
        if code.version > known.newest:
            raise Unsupported(f"version {code.version} of it is newer than {known.newest}, the newest known")
        return known

    def _attribute_sources(self, before: int, label: str) -> None:
        """Name the operator in every layer that it became; profile and errors use these names."""
        for layer in self._network.newest(len(self._network) - before):
            if layer not in self._attributed:
                layer.sources = (label,)

    def _intermediate(self, scope: Scope, numbers: Sequence[int], index: int) -> Tensor | None:
        """Return what the file says of a result inside of an operator, if it does."""
        return self._tensor(scope, numbers[index]) if index < len(numbers) and numbers[index] != -1 else None

    # -- variables ---------------------------------------------------------------------------------

    def _write_tensor(self, scope: Scope, numbers: Sequence[int], index: int, value: OutputSlot) -> None:
        """Write an input of an operator that keeps its value; see `Call.write`."""
        tensor = self._tensor(scope, numbers[index])
        if not tensor.is_variable:
            raise Unsupported(f"its input {index} does not keep what is written to it")
        name = scope.named(tensor.name or f"tensor_{numbers[index]}")
        self._write(scope, self._variables.of_tensor(scope.index, numbers[index], name), value)

    @staticmethod
    def _write(scope: Scope, variable: Variable, value: OutputSlot) -> None:
        if scope.around:  # a branch that is not taken must not write, and both are computed
            raise Unsupported(f"variable {variable.name!r} is written in a subgraph")
        variable.write(value)

    def _translate_resource(
        self, scope: Scope, name: str, options: Table | None, numbers: Sequence[int], outputs: Sequence[int], reader: str
    ) -> Sequence[Found]:
        """Translate an operator of resources, which are no tensors."""
        if name == "CALL_ONCE":
            if options is None:
                raise BrokenFile("it names no subgraph")
            self._run_first(scope, options.number("init_subgraph_index"), reader)
            return []
        if name == "VAR_HANDLE":
            return [self._variables.resource(*(options.text(part) if options else "" for part in ("container", "shared_name")))]
        found = [scope.values.get(numbers[0]), *(self._slot(scope, one, reader) for one in numbers[1:])] if numbers else []
        if any(isinstance(one, Missing) for one in found):
            return [MISSING] * len(outputs)
        if not found or not isinstance(found[0], Variable):
            raise BrokenFile(f"{reader} reads no resource")
        variable = found[0]
        if name == "READ_VARIABLE":
            return [variable.read(self._tensor(scope, outputs[0]))] if outputs else []
        value = found[1] if len(found) > 1 else None
        if not isinstance(value, OutputSlot):
            raise BrokenFile(f"{reader} writes no tensor")
        if self._is_first_run:
            variable.initial = first_value(self._inference.value(value), self._inference.dtype(value))
        else:
            self._write(scope, variable, value)
        return []

    def _run_first(self, scope: Scope, index: int, reader: str) -> None:
        """Translate a subgraph that gives variables their first values, from constants."""
        if scope.around or self._is_first_run:
            raise Unsupported("it stands in a subgraph")
        self._is_first_run = True
        try:
            self._inline(scope, index, [], reader)
        finally:
            self._is_first_run = False

    # -- subgraphs ---------------------------------------------------------------------------------

    def _inline(self, scope: Scope, index: int, sources: Sequence[OutputSlot | None], label: str) -> list[OutputSlot]:
        """Translate a subgraph in the place of an operator; see `Call.inlined`."""
        subgraphs = self._file.subgraphs
        if not 0 <= index < len(subgraphs):
            raise self._malformed(f"has {label!r} stand for subgraph {index} of {len(subgraphs)}")
        inner = scope.inner(index, subgraphs[index], label, self._file.origin)
        self._expansion.count(index)
        inputs = inner.table.numbers("inputs")
        if len(inputs) != len(sources):
            raise self._malformed(f"has {label!r} hand {len(sources)} tensors to subgraph {index}, which takes {len(inputs)}")
        for number, source in zip(inputs, sources, strict=True):
            if number in inner.values:
                raise self._malformed(f"has subgraph {index} take tensor {number} as two inputs")
            if number != -1:
                inner.values[number] = source
        before = len(self._network)
        self._translate_operators(inner)
        found = [self._slot(inner, number, f"{label!r}") for number in inner.table.numbers("outputs")]
        self._attributed.update(self._network.newest(len(self._network) - before))
        results = [slot for slot in found if isinstance(slot, OutputSlot)]
        if any(isinstance(slot, Missing) for slot in found):
            raise NotTranslated
        if len(results) != len(found):
            raise self._malformed(f"has subgraph {index}, in the place of {label!r}, give no tensor")
        return results

    # -- trouble -----------------------------------------------------------------------------------

    def _note(self, op: str, version: int, node: str, reason: str) -> None:
        self._unsupported.append(Unknown(op=op, version=version, node=node, reason=reason))

    def _malformed(self, found: str) -> ModelError:
        return malformed(f"{self._file.origin} {found}")


_WITHOUT_RESULTS = ("IF", "WHILE", "CALL")
"""Operators that give as much as their subgraphs do."""


def _opened(shape: Sequence[int], name: str) -> list[int | str]:
    """Name the sizes that are open, after an input whose name no other has."""
    return [f"{name}_dim{axis}" if size < 0 else size for axis, size in enumerate(shape)]


def _options(table: Table) -> Table | None:
    """Return the options of an operator, of whichever of the two unions it uses."""
    for field, known in (("builtin_options", OPTIONS), ("builtin_options2", OPTIONS_2)):
        kind = table.number(f"{field}_type")
        if kind in known:
            found = table.table(field, known[kind])
            if found is None:
                raise BrokenFile(f"an operator has no {known[kind]}, though it says so")
            return found
    return None
