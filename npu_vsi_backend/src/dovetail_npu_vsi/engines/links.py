"""Who writes and who reads each tensor of a program."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from ..program import Operation, Program, Reshape


class Links:
    """What leads from one operation of a program to another.

    Args:
        program: It is not kept.

    Attributes:
        makers: The operation that writes a tensor, by the tensor's number; inputs have none.
        readers: Those that read it.
    """

    def __init__(self, program: Program) -> None:
        self.makers = {operation.output: operation for operation in program.operations}
        self.readers: dict[int, list[Operation]] = {}
        for operation in program.operations:
            for number in dict.fromkeys(operation.inputs):
                self.readers.setdefault(number, []).append(operation)
        self._outputs = frozenset(program.outputs)

    def root(self, number: int) -> int:
        """Return the tensor that another is under a new shape."""
        while isinstance(maker := self.makers.get(number), Reshape):
            number = maker.inputs[0]
        return number

    def is_computed(self, number: int) -> bool:
        """Say whether a tensor is more than an input of the program under another shape."""
        return self.root(number) in self.makers

    def only_reader(self, number: int) -> Operation | None:
        """Return the only operation that needs a tensor; None if others or callers need it."""
        readers = self.readers.get(number, ())
        return readers[0] if len(readers) == 1 and number not in self._outputs else None


_known: WeakKeyDictionary[Program, Links] = WeakKeyDictionary()


def links(program: Program) -> Links:
    """Return the links of a program, found once."""
    found = _known.get(program)
    if found is None:
        found = _known[program] = Links(program)
    return found
