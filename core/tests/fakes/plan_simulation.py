"""Simulate plans of memory: every read must see what was written; make random cases."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from dovetail.contract.interfaces import HOST, MemoryDomain
from dovetail.runtime.aliases import Alias, Relation
from dovetail.runtime.memory_plan import ALIGNMENT, MemoryPlan, Step, Storage, Tensor

DEVICES = [MemoryDomain("Device", 0, "x"), MemoryDomain("Device", 1, "x"), HOST]  # queue 2 works in host memory
IMAGES = MemoryDomain("Device", 0, "images", True)
"""A second memory of the device of queue 0, which the host can map."""
DOMAINS = {None: [HOST], 0: [DEVICES[0], IMAGES], 1: [DEVICES[1]], 2: [HOST]}
WHOLE = [frozenset([*DEVICES[:2], IMAGES]), frozenset([IMAGES]), frozenset()]
"""Memories without offsets, by seed."""


@dataclass
class Case:
    """A list of steps, and what every tensor holds once it is written."""

    tensors: list[Tensor] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    contents: list[np.ndarray] = field(default_factory=list)
    n_inputs: int = 0
    n_constants: int = 0
    n_outputs: int = 0

    def tensor(self, nbytes: int, content: np.ndarray | None = None, **attributes: object) -> int:
        number = len(self.tensors)
        self.tensors.append(Tensor(nbytes, **attributes))
        pattern = np.random.default_rng(number).integers(0, 256, nbytes, np.uint8)
        self.contents.append(pattern if content is None else content)
        return number


class WrongPlanError(AssertionError):
    """The plan lets somebody read what was overwritten."""


class Simulation:
    """Carries out a plan byte by byte."""

    def __init__(self, case: Case, plan: MemoryPlan, luck: random.Random, eagerness: float) -> None:
        self.case, self.plan, self.luck, self.eagerness = case, plan, luck, eagerness
        self.memory = {(Storage.ARENA, i): self._garbage(arena.nbytes) for i, arena in enumerate(plan.arenas)}
        for number, tensor in enumerate(case.tensors):
            if tensor.storage is not Storage.ARENA:
                self.memory[tensor.storage, tensor.index] = case.contents[number].copy()
            for output in tensor.outputs:
                self.memory[Storage.OUTPUT, output] = self._garbage(tensor.nbytes)
        self.pending: dict[int, list[int]] = {}

    def _garbage(self, nbytes: int) -> np.ndarray:
        return np.frombuffer(self.luck.randbytes(nbytes), np.uint8).copy()

    def where(self, tensor: int) -> np.ndarray:
        place = self.plan.placements[tensor]
        region = self.memory[place.storage, place.index]
        nbytes = self.case.tensors[tensor].nbytes
        if place.offset < 0 or place.offset + nbytes > len(region):
            raise WrongPlanError(f"tensor {tensor} does not lie inside its memory")
        return region[place.offset : place.offset + nbytes]

    def check(self, tensor: int, who: str) -> None:
        if not np.array_equal(self.where(tensor), self.case.contents[tensor]):
            raise WrongPlanError(f"{who} reads tensor {tensor}, which was overwritten or never written")

    def execute(self, number: int) -> None:
        step = self.case.steps[number]
        place = self.plan.workspaces[number]
        if place is not None:
            region = self.memory[place.storage, place.index]
            assert place.offset + step.workspace <= len(region)
            region[place.offset : place.offset + step.workspace] = self._garbage(step.workspace)
        for tensor in step.reads:
            if tensor is not None:
                self.check(tensor, f"step {number}")
        for tensor in step.writes:
            self.where(tensor)[...] = self.case.contents[tensor]
        for tensor in step.writes:
            self.check(tensor, f"whoever looks right after step {number}")

    def run_pending(self, queue: int, count: int) -> None:
        for number in self.pending.get(queue, [])[:count]:
            self.execute(number)
        del self.pending.get(queue, [])[:count]

    def run(self) -> None:
        for number, step in enumerate(self.case.steps):
            for queue, waiting in self.pending.items():
                if self.luck.random() < self.eagerness:
                    self.run_pending(queue, self.luck.randint(0, len(waiting)))
            if number in self.plan.elided:
                continue
            if step.is_wait:
                self.run_pending(step.queue, len(self.case.steps))
            elif step.queue is not None:
                self.pending.setdefault(step.queue, []).append(number)
            else:
                self.execute(number)
        assert not any(self.pending.values()), "the case lacks a wait"
        for tensor, output in self.plan.output_copies:
            self.check(tensor, "an output copy")
            self.memory[Storage.OUTPUT, output][...] = self.where(tensor)
        for number, tensor in enumerate(self.case.tensors):
            if tensor.storage is not Storage.ARENA and not np.array_equal(
                self.memory[tensor.storage, tensor.index], self.case.contents[number]
            ):
                raise WrongPlanError(f"{tensor.storage} {tensor.index} was written to")
            for output in tensor.outputs:
                if not np.array_equal(self.memory[Storage.OUTPUT, output], self.case.contents[number]):
                    raise WrongPlanError(f"output {output} is wrong")


def simulate(case: Case, plan: MemoryPlan, seed: int) -> None:
    for eagerness in (0.0, 1.0, 0.4):
        Simulation(case, plan, random.Random(seed), eagerness).run()


class Generator:
    """Draws steps with views, in-place results, concatenations, workspaces, queues, outputs."""

    def __init__(self, seed: int) -> None:
        self.luck = random.Random(seed)
        self.case = Case()
        self.in_flight: dict[int, int] = {}
        self.living: dict[MemoryDomain, list[int]] = {domain: [] for domain in (*DEVICES, IMAGES)}
        for index in range(self.luck.randint(1, 3)):
            self.add_source(Storage.INPUT, index)
        for index in range(self.luck.randint(0, 2)):
            self.add_source(Storage.CONSTANT, index)

    def add_source(self, storage: Storage, index: int) -> None:
        self.living[HOST].append(self.case.tensor(self.size(), storage=storage, index=index))

    def size(self) -> int:
        return self.luck.choice([0, 4, 60, 64, 68, 128, 256, 256, 256, 300, 1024]) if self.luck.random() < 0.7 else 256

    def generate(self, n_steps: int) -> Case:
        for _ in range(n_steps):
            self.draw()
        for tensor in self.luck.choices(self.living[HOST], k=self.luck.randint(1, 4)):
            self.case.tensors[tensor].outputs.append(self.case.n_outputs)
            self.case.n_outputs += 1
        for queue in sorted(set(self.in_flight.values())):
            self.case.steps.append(Step(queue=queue, is_wait=True))
        return self.case

    def draw(self) -> None:
        """Add a step."""
        self.luck.choice([self.compute, self.compute, self.compute, self.view, self.concat, self.copy])()

    def place(self) -> tuple[MemoryDomain, int | None]:
        """Where the next step works: on the host, or on a queue."""
        queue = self.luck.choice([None, None, 0, 1, 2])
        domain = self.luck.choice(DOMAINS[queue])
        return (domain, queue) if self.living[domain] else (HOST, None)

    def beside(self, domain: MemoryDomain) -> MemoryDomain:
        """Return a memory for tensors and scratch of a step that already works in another one."""
        return self.luck.choice(DOMAINS[0]) if domain in DOMAINS[0] else domain

    def pick(self, domain: MemoryDomain) -> int:
        recent = self.living[domain][-6:]
        return self.luck.choice(recent if self.luck.random() < 0.8 else self.living[domain])

    def emit(self, step: Step, domain: MemoryDomain) -> None:
        needed = {self.in_flight[r] for r in step.reads if r is not None and r in self.in_flight} - {step.queue}
        for queue in sorted(needed):
            self.case.steps.append(Step(queue=queue, is_wait=True))
            self.in_flight = {tensor: q for tensor, q in self.in_flight.items() if q != queue}
        self.case.steps.append(step)
        for tensor in step.writes:
            self.living[self.case.tensors[tensor].domain].append(tensor)
        if step.queue is not None:
            self.in_flight.update(dict.fromkeys(step.writes, step.queue))

    def fresh(self, domain: MemoryDomain, nbytes: int, content: np.ndarray | None = None) -> int:
        alignment = ALIGNMENT if domain == HOST else 128
        if self.luck.random() < 0.1:
            alignment = 256
        return self.case.tensor(nbytes, content, domain=domain, alignment=alignment)

    def compute(self) -> None:
        domain, queue = self.place()
        reads: list[int | None] = [self.pick(domain)]
        for _ in range(self.luck.randint(0, 2)):
            beside = self.beside(domain)
            reads.append(self.pick(beside if self.living[beside] else domain))
        sizes = [self.case.tensors[reads[0]].nbytes if self.luck.random() < 0.7 else self.size()]
        sizes += [self.size()] * (self.luck.random() < 0.2)
        writes = [self.fresh(self.beside(domain), size) for size in sizes]
        aliases = [Alias(Relation.IN_PLACE, 0, i) for i in range(len(reads)) if self.luck.random() < 0.6]
        if self.luck.random() < 0.2:
            reads.insert(0, None)
            aliases = [Alias(a.relation, a.output, a.input + 1) for a in aliases]
        workspace = self.luck.choice([0, 0, 0, 64, 200, 1000])
        scratch = self.beside(domain) if self.luck.random() < 0.9 else HOST
        self.emit(Step(reads, writes, workspace, scratch, aliases=aliases, queue=queue), domain)

    def view(self) -> None:
        domain, queue = self.place()
        source = self.pick(domain)
        content, aliases, writes = self.case.contents[source], [], []
        cut = self.luck.choice([len(content), len(content), 64, 4])
        if cut >= len(content):
            aliases.append(Alias(Relation.VIEW, 0, 0))
            writes.append(self.fresh(domain, len(content), content))
        else:
            for begin, end in ((0, cut), (cut, len(content))):
                aliases.append(Alias(Relation.VIEW, len(writes), 0, begin))
                writes.append(self.fresh(domain, end - begin, content[begin:end]))
        self.emit(Step([source], writes, aliases=aliases, elidable=self.luck.random() < 0.8, queue=queue), domain)

    def concat(self) -> None:
        domain, queue = self.place()
        parts = [self.pick(domain) for _ in range(self.luck.randint(1, 4))]
        content = np.concatenate([self.case.contents[part] for part in parts])
        offsets = np.cumsum([0, *(len(self.case.contents[part]) for part in parts)])
        aliases = [Alias(Relation.PART, 0, i, int(offsets[i])) for i in range(len(parts))]
        whole = self.fresh(domain, len(content), content)
        self.emit(Step(parts, [whole], aliases=aliases, elidable=self.luck.random() < 0.8, queue=queue), domain)

    def copy(self) -> None:
        queue = self.luck.choice([0, 1])
        device = self.luck.choice(DOMAINS[queue])
        source, target = self.luck.choice([(HOST, device), (device, HOST), tuple(self.luck.sample(DOMAINS[0], 2))])
        if queue == 1 and IMAGES in (source, target):
            return
        if {source, target} == {HOST, IMAGES}:
            queue = None  # the core copies, by mapping
        if self.living[source]:
            tensor = self.pick(source)
            content = self.case.contents[tensor]
            self.emit(Step([tensor], [self.fresh(target, len(content), content)], queue=queue), target)
