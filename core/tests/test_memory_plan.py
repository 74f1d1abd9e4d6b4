"""Check the memory plan by an independent simulation: every read must see the latest write.

Each tensor has bytes of its own. Steps of a queue run late: at once, at the wait, or at some moment
in between.
"""

from __future__ import annotations

import random

import pytest
from fakes.plan_simulation import IMAGES, WHOLE, Case, Generator, WrongPlanError, simulate

from dovetail.contract.interfaces import HOST
from dovetail.runtime import memory_plan, packing
from dovetail.runtime.aliases import Alias, Relation, problem_with
from dovetail.runtime.intervals import Entry, Intervals
from dovetail.runtime.memory_plan import MemoryPlan, Step, Storage, plan_memory

# -- random cases ----------------------------------------------------------------------------------


def planned(seed: int) -> tuple[Case, MemoryPlan]:
    case = Generator(seed).generate(5 + seed % 40)
    return case, plan_memory(case.tensors, case.steps, whole=WHOLE[seed % 3])


SEEDS = range(400)


def test_every_read_sees_what_was_written() -> None:
    aliased = elided = copied = 0
    for seed in SEEDS:
        case, plan = planned(seed)
        simulate(case, plan, seed)
        elided += len(plan.elided)
        copied += len(plan.output_copies)
        aliased += sum(len(buffer.members) > 1 for buffer in plan.buffers)
    assert min(elided, copied, aliased) > 100, "the cases do not exercise what they should"


def test_buffers_alive_together_do_not_overlap() -> None:
    for seed in SEEDS:
        case, plan = planned(seed)
        for i, one in enumerate(plan.buffers):
            assert one.offset % one.alignment == 0
            assert one.offset + one.nbytes <= plan.arenas[one.arena].nbytes
            assert one.domain == plan.arenas[one.arena].domain
            for other in plan.buffers[:i]:
                together = one.arena == other.arena and one.start <= other.end and other.start <= one.end
                apart = one.offset + one.nbytes <= other.offset or other.offset + other.nbytes <= one.offset
                assert apart or not together or 0 in (one.nbytes, other.nbytes)
        assert plan.peak_bytes == sum(arena.nbytes for arena in plan.arenas)
        assert plan.lower_bound <= plan.peak_bytes or not all(b.domain == HOST for b in plan.buffers)
        assert len(plan.placements) == len(case.tensors)


def test_only_equal_images_share_an_allocation() -> None:
    shared = 0
    for seed in SEEDS:
        case = Generator(seed).generate(5 + seed % 40)
        for number, tensor in enumerate(case.tensors):
            if tensor.domain == IMAGES:
                tensor.image = ("shape", number % 2)
        plan = plan_memory(case.tensors, case.steps, whole=WHOLE[seed % 2])  # both are without offsets there
        simulate(case, plan, seed)
        members: dict[int, list[int]] = {}
        for number, (tensor, place) in enumerate(zip(case.tensors, plan.placements, strict=True)):
            if tensor.domain == IMAGES and place.storage is Storage.ARENA:
                assert place.offset == 0
                members.setdefault(place.index, []).append(number)
        for arena, numbers in members.items():
            assert len({case.tensors[number].image for number in numbers}) == 1
            assert plan.arenas[arena].tensor in numbers
            shared += len(numbers) > 1
        assert all(arena.tensor is None for arena in plan.arenas if arena.domain != IMAGES)
    assert shared > 20, "the cases do not exercise what they should"


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pack as where too many buffers are alive together."""
    monkeypatch.setattr(packing, "PAIRS", -1)
    monkeypatch.setattr(packing, "PAIRS_EACH", -1)


def test_many_buffers_alive_together_do_not_overlap(swept: None) -> None:
    test_buffers_alive_together_do_not_overlap()
    for seed in range(100):
        case, plan = planned(seed)
        simulate(case, plan, seed)


def test_parts_of_parts_lie_where_they_belong() -> None:
    """Each concatenation takes up the one before it, behind or before what it adds."""
    for before in (False, True):
        lists = Lists()
        x = lists.input(16)
        joined = lists.layer(16, x)
        for _ in range(300):
            more = lists.layer(16, x)
            joined = lists.concat(*((more, joined) if before else (joined, more)))
        case = lists.finish(lists.layer(16, joined))
        for step in case.steps:  # what a concatenation holds is what its parts hold
            for alias in step.aliases:
                case.contents[step.writes[0]][alias.offset :][: len(case.contents[step.reads[alias.input]])] = case.contents[
                    step.reads[alias.input]
                ]
        plan = plan_memory(case.tensors, case.steps)
        assert len(plan.elided) == 300
        simulate(case, plan, 0)


def test_a_device_gets_the_offsets_that_it_can_do() -> None:
    seen = 0
    for seed in SEEDS:
        case, plan = planned(seed)
        for tensor, place in zip(case.tensors, plan.placements, strict=True):
            if place.storage is Storage.ARENA and tensor.domain != HOST:
                seen += 1
                assert place.offset % tensor.alignment == 0
                if tensor.domain in WHOLE[seed % 3]:
                    assert place.offset == 0
    assert seen > 1000


def test_tensors_and_scratch_lie_in_the_memory_that_was_chosen_for_them() -> None:
    mixed = scratch = 0
    for seed in SEEDS:
        case, plan = planned(seed)
        for tensor, place in zip(case.tensors, plan.placements, strict=True):
            if place.storage is Storage.ARENA and tensor.nbytes:
                assert plan.arenas[place.index].domain == tensor.domain
        for step, place in zip(case.steps, plan.workspaces, strict=True):
            if place is not None:
                assert plan.arenas[place.index].domain == step.workspace_domain
                scratch += step.workspace_domain == IMAGES
            mixed += len({case.tensors[one].domain for one in (*step.reads, *step.writes) if one is not None}) > 1
    assert min(mixed, scratch) > 20, "the cases do not exercise what they should"


def test_the_plan_is_deterministic() -> None:
    for seed in range(30):
        assert planned(seed)[1] == planned(seed)[1]


# -- any aliases at all ----------------------------------------------------------------------------


class Liar(Generator):
    """Draws aliases at random, most of which cannot be true; the contents follow those that can."""

    sound = 0

    def draw(self) -> None:
        domain, queue = self.place()
        reads: list[int | None] = [self.pick(domain) for _ in range(self.luck.randint(1, 3))]
        if self.luck.random() < 0.1:
            reads[self.luck.randrange(len(reads))] = None
        sizes = [self.size() for _ in range(self.luck.randint(1, 3))]
        of = [self.case.tensors[read].nbytes for read in reads if read is not None]
        if of and self.luck.random() < 0.7:
            sizes = [self.luck.choice([*of, sum(of), of[0] // 2]) for _ in sizes]
        count = self.luck.choice([1, 1, 2, 2, 3, 4])
        relations = [self.luck.choice(list(Relation)) for _ in range(count)]
        aliases = [
            Alias(
                one,
                self.luck.randint(-1 if self.luck.random() < 0.1 else 0, len(sizes) - 1),
                self.luck.randrange(len(reads)),
                self.luck.choice([0, 0, 0, 0, 64, 128, 4, -64, 256, sum(of)]),
            )
            for one in relations
        ]
        if self.luck.random() < 0.3:  # so that lists of several are sound now and then
            aliases = [Alias(Relation.VIEW, i, 0, 0) for i in range(len(sizes))]
        writes = [self.fresh(domain, size) for size in sizes]
        tensors = self.case.tensors
        extents = [None if read is None else tensors[read].extent for read in reads]
        if not problem_with(aliases, extents, [tensors[write].extent for write in writes]):
            self.sound += 1
            for relation, output, source, offset in aliases:
                mine, its = self.case.contents[writes[output]], self.case.contents[reads[source]]
                if relation is Relation.VIEW:
                    mine[...] = its[offset : offset + len(mine)]
                elif relation is Relation.PART:
                    mine[offset : offset + len(its)] = its
        self.emit(Step(reads, writes, self.luck.choice([0, 0, 64]), aliases=aliases, queue=queue), domain)


def test_whatever_is_declared_no_byte_belongs_to_two() -> None:
    """The simulation compares every byte of what is read later, of inputs, constants and outputs.

    So it does with what was just written.
    """
    sound = shared = 0
    for seed in range(800):
        liar = Liar(seed)
        case = liar.generate(5 + seed % 20)
        plan = plan_memory(case.tensors, case.steps, whole=WHOLE[seed % 3])
        simulate(case, plan, seed)
        sound += liar.sound
        shared += sum(len(buffer.members) > 1 for buffer in plan.buffers)
    assert min(sound, shared) > 600, "the cases do not exercise what they should"


# -- mutations: with a rule taken out, the simulation must notice ----------------------------------


def assert_caught() -> None:
    caught = 0
    for seed in SEEDS:
        case, plan = planned(seed)
        try:
            simulate(case, plan, seed)
        except WrongPlanError:
            caught += 1
    assert caught > 0


def test_mutation_async_steps_release_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_plan, "releases", lambda steps: list(range(len(steps))))
    assert_caught()


def test_mutation_in_place_over_a_living_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_plan._Planner, "_dead_after", lambda self, tensor, number: True)
    assert_caught()


def test_mutation_unsound_aliases_are_taken_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_plan, "_sound", lambda tensors, step: step)
    caught = 0
    for seed in range(40):
        case = Liar(seed).generate(10)
        try:
            simulate(case, plan_memory(case.tensors, case.steps), seed)
        except (WrongPlanError, IndexError, AssertionError):
            caught += 1
    assert caught > 0


def test_mutation_lives_end_one_step_early(monkeypatch: pytest.MonkeyPatch) -> None:
    set_life = memory_plan._Planner._set_life

    def shorter(self: memory_plan._Planner, buffer: memory_plan.Buffer) -> None:
        set_life(self, buffer)
        buffer.end = max(buffer.start, buffer.end - 1)

    monkeypatch.setattr(memory_plan._Planner, "_set_life", shorter)
    assert_caught()


def test_mutation_output_copies_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = memory_plan._Planner._claim_outputs
    monkeypatch.setattr(memory_plan._Planner, "_claim_outputs", lambda self: claim(self) and [])
    assert_caught()


# -- how well it packs -----------------------------------------------------------------------------


class Lists:
    """Lists of steps like those of real networks; sizes in elements of float32."""

    def __init__(self) -> None:
        self.case = Case()

    def input(self, elements: int) -> int:
        return self.case.tensor(4 * elements, storage=Storage.INPUT)

    def layer(self, elements: int, *reads: int, in_place: bool = False, workspace: int = 0) -> int:
        aliases = [Alias(Relation.IN_PLACE, 0, i) for i in range(len(reads))] if in_place else []
        output = self.case.tensor(4 * elements)
        self.case.steps.append(Step(reads, [output], workspace, aliases=aliases))
        return output

    def concat(self, *parts: int) -> int:
        sizes = [self.case.tensors[part].nbytes for part in parts]
        output = self.case.tensor(sum(sizes))
        aliases = [Alias(Relation.PART, 0, i, sum(sizes[:i])) for i in range(len(parts))]
        self.case.steps.append(Step(parts, [output], aliases=aliases, elidable=True))
        return output

    def finish(self, tensor: int) -> Case:
        self.case.tensors[tensor].outputs.append(0)
        return self.case


def residual_network() -> Case:
    lists = Lists()
    y = lists.layer(64 * 56 * 56, lists.input(3 * 224 * 224), workspace=1_000_000)
    for stage in range(4):
        channels, size = 64 << stage, (56 >> stage) ** 2
        for block in range(3):
            skip = lists.layer(4 * channels * size, y) if block == 0 else y
            a = lists.layer(channels * size, y)
            b = lists.layer(channels * size, a, workspace=9 * 4096)
            y = lists.layer(4 * channels * size, lists.layer(4 * channels * size, b), skip, in_place=True)
    return lists.finish(lists.layer(1000, lists.layer(2048, y)))


def mobile_network() -> Case:
    lists = Lists()
    y = lists.layer(32 * 112 * 112, lists.input(3 * 224 * 224))
    for channels, size, repeats in ((16, 112, 1), (24, 56, 2), (32, 28, 3), (64, 14, 4), (96, 14, 3), (160, 7, 3), (320, 7, 1)):
        for i in range(repeats):
            wide = lists.layer(6 * channels * size * size, y, in_place=True)
            deep = lists.layer(6 * channels * size * size, wide)
            narrow = lists.layer(channels * size * size, deep)
            y = narrow if i == 0 else lists.layer(channels * size * size, narrow, y, in_place=True)
    return lists.finish(lists.layer(1000, lists.layer(1280 * 49, y)))


def u_shaped_network() -> Case:
    lists = Lists()
    y, skips = lists.input(3 * 256 * 256), []
    for depth in range(4):
        elements = (32 << depth) * (256 >> depth) ** 2
        y = lists.layer(elements, lists.layer(elements, y))
        skips.append(y)
        y = lists.layer(elements // 4, y)
    for depth in reversed(range(4)):
        elements = (32 << depth) * (256 >> depth) ** 2
        y = lists.layer(elements, lists.concat(lists.layer(elements, y), skips[depth]))
    return lists.finish(lists.layer(256 * 256, y))


def branching_network() -> Case:
    lists = Lists()
    y = lists.layer(192 * 28 * 28, lists.input(3 * 224 * 224))
    for i in range(9):
        size = 28 * 28 if i < 3 else 14 * 14
        branches = [lists.layer((64 + 16 * i) * size, y)]
        branches += [lists.layer(n * size, lists.layer(m * size, y)) for m, n in ((96, 128 + 16 * i), (16, 32))]
        y = lists.concat(*branches, lists.layer(32 * size, lists.layer(192 * size, y)))
    return lists.finish(lists.layer(1000, y))


def attention_network() -> Case:
    lists = Lists()
    tokens, width = 128, 256
    y = lists.layer(tokens * width, lists.input(tokens))
    for _ in range(6):
        normal = lists.layer(tokens * width, y)
        q, k, v = (lists.layer(tokens * width, normal) for _ in range(3))
        scores = lists.layer(4 * tokens * tokens, lists.layer(4 * tokens * tokens, q, k), in_place=True)
        mixed = lists.layer(tokens * width, lists.layer(tokens * width, scores, v))
        y = lists.layer(tokens * width, mixed, y, in_place=True)
        wide = lists.layer(4 * tokens * width, lists.layer(tokens * width, y))
        y = lists.layer(tokens * width, lists.layer(tokens * width, lists.layer(4 * tokens * width, wide, in_place=True)), y)
    return lists.finish(lists.layer(width, y))


@pytest.mark.parametrize(
    "make", [residual_network, mobile_network, u_shaped_network, branching_network, attention_network], ids=lambda f: f.__name__
)
def test_the_peak_is_near_the_lower_bound(make) -> None:
    case = make()
    plan = plan_memory(case.tensors, case.steps)
    assert plan.lower_bound <= plan.peak_bytes <= 1.10 * plan.lower_bound
    assert plan.lower_bound < 0.6 * sum(tensor.nbytes for tensor in case.tensors)


@pytest.mark.parametrize(
    "make", [residual_network, mobile_network, branching_network, attention_network], ids=lambda f: f.__name__
)
def test_the_peak_of_many_buffers_is_near_the_lower_bound(make, swept: None) -> None:
    case = make()
    plan = plan_memory(case.tensors, case.steps)
    assert plan.lower_bound <= plan.peak_bytes <= 1.25 * plan.lower_bound


def test_the_lower_bound_is_what_must_be_alive() -> None:
    """All bytes still to be read are counted anew at each step, without the plan's own lives."""
    case = residual_network()
    plan = plan_memory(case.tensors, case.steps)
    last = {t: n for n, step in enumerate(case.steps) for t in (*step.reads, *step.writes)}
    first = {t: n for n, step in enumerate(case.steps) for t in step.writes}
    need = 0
    for number, step in enumerate(case.steps):
        places = {
            (p.index, p.offset): case.tensors[t].nbytes
            for t, p in enumerate(plan.placements)
            if p.storage is Storage.ARENA and first.get(t, 0) <= number <= last[t]
        }
        need = max(need, sum(places.values()) + step.workspace)
    assert need <= plan.lower_bound <= 1.01 * need


def test_intervals_find_what_overlaps() -> None:
    luck = random.Random(3)
    intervals, known = Intervals(), set[Entry]()
    for number in range(600):
        length = luck.choice([0, 1, 3, 8, 60, 64, 500])
        begin = luck.randint(-50, 2000)
        intervals.add(begin, length, number)
        if length:
            known.add(Entry(begin, begin + length, number))
        if known and luck.random() < 0.3:
            gone = luck.choice(sorted(known))
            intervals.remove(gone)
            known.remove(gone)
        place, size = luck.randint(-60, 2100), luck.choice([0, 1, 64, 300])
        expected = {entry for entry in known if entry.begin < place + size and place < entry.end}
        assert set(intervals.overlapping(place, size)) == expected
