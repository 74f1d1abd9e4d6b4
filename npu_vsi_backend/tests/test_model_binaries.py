"""Binaries of the model: what is damaged, foreign or hostile is refused before anything runs."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from dovetail_npu_vsi.model.executor import record_sizes
from programs import of_one, random_convolution, random_weights, tensor

from dovetail import BackendError
from dovetail_npu_vsi import program as p
from dovetail_npu_vsi.chips import CHIPS
from dovetail_npu_vsi.errors import VsiError
from dovetail_npu_vsi.model import ModelDriver, binary
from dovetail_npu_vsi.model.commands import COMMAND, CONSTANTS, DDR, FILTER, INPUT, OUTPUT, SRAM

CHIP = CHIPS[0]


@pytest.fixture(scope="module")
def content():
    """A binary with convolutions in bands, a fully connected layer, a softmax and a table."""
    rng = np.random.default_rng(3)
    tensors = (
        tensor((1, 3, 40, 40)),
        tensor((1, 8, 40, 40)),
        tensor((1, 8, 40, 40), 0.04, 3),
        tensor((1, 12800), 0.04, 3),
        tensor((1, 10)),
        tensor((1, 10), 1 / 256, 0),
    )
    ones = (1, 1)
    operations = (
        p.Convolution(
            name="conv",
            inputs=(0,),
            output=1,
            weights=random_weights(rng, (8, 3, 3, 3)),
            stride=ones,
            padding=(1, 1, 1, 1),
            dilation=ones,
            groups=1,
            low=0,
            high=255,
        ),
        p.Requantize(name="scaled", inputs=(1,), output=2, low=0, high=255),
        p.Reshape(name="rows", inputs=(2,), output=3),
        p.FullyConnected(name="fc", inputs=(3,), output=4, weights=random_weights(rng, (10, 12800)), low=0, high=255),
        p.Softmax(name="softmax", inputs=(4,), output=5, axis=1, beta=1.0),
    )
    return ModelDriver().compile(p.Program("net", tensors, operations, (0,), (5,)), CHIP, lambda *_: None)


def test_records_are_laid_out_as_compiled():
    assert record_sizes() == (COMMAND.itemsize, FILTER.itemsize)


def test_a_binary_is_read_as_it_was_written(content):
    assert binary.to_bytes(binary.from_bytes(content, CHIP)) == content


@pytest.mark.parametrize("position", [0, 10, 30, 60, 100, 2000, -1])
def test_a_changed_byte_is_noticed(content, position):
    damaged = bytearray(content)
    damaged[position] ^= 1
    with pytest.raises(VsiError, match="a binary of the model cannot be used"):
        binary.from_bytes(bytes(damaged), CHIP)


@pytest.mark.parametrize("length", [0, 1, 20, 21, 52, 60, 77, 78, 500])
def test_a_part_of_a_binary_is_refused(content, length):
    with pytest.raises(VsiError, match="a binary of the model cannot be used"):
        binary.from_bytes(content[:length], CHIP)
    with pytest.raises(VsiError):
        binary.from_bytes(content[: len(content) - 1 - length], CHIP)


def test_a_binary_for_another_chip_is_refused_by_name(content):
    with pytest.raises(VsiError, match=r"for i\.MX 8M Plus was to be loaded on A311D") as caught:
        ModelDriver().load(content, CHIPS[1])
    assert isinstance(caught.value, BackendError)
    assert (caught.value.details["found"], caught.value.details["expected"]) == (0x9F, 0x88)


def changed(content, change):
    """Return a binary with some commands changed, and a digest that fits."""
    made = binary.from_bytes(content, CHIP)
    commands = made.commands.copy()
    made = change(commands, made) or made
    return binary.to_bytes(made._replace(commands=commands))


@pytest.mark.parametrize("field", ["input", "output"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("offset", -1),
        ("offset", 1 << 40),
        ("memory", 99),
        ("memory", -1),
        ("operand", 5),
        ("operand", -1),
        ("size", (1, 1, 1, 1 << 33)),
        ("size", (-1, 1, 1, 1)),
        ("stride", (0, 0, 0, -1)),
        ("stride", (1 << 40, 1 << 40, 1 << 40, 1 << 40)),
    ],
)
def test_commands_that_leave_their_memory_are_refused(content, field, name, value):
    def change(commands, made):
        for number in range(len(commands)):
            memory = commands[number][field]["memory"]
            if name == "operand" and memory not in (INPUT, OUTPUT):
                continue
            commands[number][field][name] = value

    with pytest.raises(VsiError, match=r"a command reaches|a command reads"):
        binary.from_bytes(changed(content, change), CHIP)


def test_commands_that_write_to_constants_or_inputs_are_refused(content):
    for memory in (CONSTANTS, INPUT):

        def change(commands, made, memory=memory):
            commands["output"]["memory"] = memory

        with pytest.raises(VsiError):
            binary.from_bytes(changed(content, change), CHIP)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (field, value)
        for field in ("weights", "filters", "table", "reals")
        for value in (-(1 << 40), -1, 1 << 40)
        if (field, value) != ("table", -1)  # a copy without a table is a copy
    ],
)
def test_commands_that_read_beyond_the_constants_are_refused(content, field, value):
    def change(commands, made):
        commands[field] = np.where(commands[field] >= 0, value, commands[field])

    with pytest.raises(VsiError, match="reads beyond the constants"):
        binary.from_bytes(changed(content, change), CHIP)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("opcode", 77),
        ("opcode", -1),
        ("kernel", 1 << 30),
        ("group_outputs", 0),
        ("group_inputs", -4),
        ("first_filter", -9),
        ("dilation", -3),
    ],
)
def test_commands_with_senseless_numbers_are_refused(content, field, value):
    def change(commands, made):
        commands[field] = value

    with pytest.raises(VsiError):
        binary.from_bytes(changed(content, change), CHIP)


def test_memories_of_senseless_sizes_are_refused(content):
    for name, value in (("ddr_bytes", -1), ("sram_bytes", 1 << 50)):
        made = binary.from_bytes(content, CHIP)._replace(**{name: value})
        with pytest.raises(VsiError):
            binary.from_bytes(binary.to_bytes(made), CHIP)


@pytest.mark.parametrize("facts", [b"", b"{}", b"[1]", b'{"chip": "x"}', b"\xff\xfe", b'{"chip": 159, "inputs": 3}'])
def test_facts_that_are_none_are_refused(content, facts):
    lengths = b"".join(length.to_bytes(8, "little") for length in (len(facts), 0, 0))
    body = lengths + facts
    with pytest.raises(VsiError, match="a binary of the model cannot be used"):
        binary.from_bytes(binary.MAGIC + hashlib.sha256(body).digest() + body, CHIP)


def test_memories_stay_within_the_chip():
    """Tensors and loaded pieces together never take more than the chip has."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        for chip in CHIPS:
            made = binary.from_bytes(ModelDriver().compile(random_convolution(rng), chip, lambda *_: None), chip)
            assert made.sram_bytes <= chip.sram_bytes
            assert set(made.commands["output"]["memory"]) <= {DDR, SRAM, OUTPUT}


def test_compiling_reports_and_ends_when_it_is_told_to():
    program = of_one(p.Requantize(name="scaled", inputs=(0,), output=1, low=0, high=255), tensor((4,)), tensor((4,), 0.04, 3))
    told = []
    ModelDriver().compile(program, CHIP, lambda fraction, what: told.append((fraction, what)))
    assert told == [(0.0, "scaled")]

    def end(fraction, what):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ModelDriver().compile(program, CHIP, end)


def blended():
    """The binary of a mixture, and its table: three numbers of 12 rows, then of 22 columns."""
    resize = p.Resize(name="r", inputs=(0,), output=1, mode="bilinear", align_corners=False, half_pixel=True)
    program = p.Program("net", (tensor((1, 2, 6, 11)), tensor((1, 2, 12, 22))), (resize,), (0,), (1,))
    made = binary.from_bytes(ModelDriver().compile(program, CHIP, lambda *_: None), CHIP)
    return made, np.frombuffer(made.constants, np.int32).copy()


@pytest.mark.parametrize(
    ("at", "number"),
    [(0, -1), (11, 6), (12, 6), (23, 1 << 30), (24, -1), (35, 5), (36, 11), (57, -1), (58, 11), (80, -1), (101, 5)],
)
def test_mixtures_that_an_image_does_not_have_are_refused(at, number):
    made, table = blended()
    table[at] = number
    with pytest.raises(VsiError, match="a command mixes rows or columns that an image of 6x11 does not have"):
        binary.from_bytes(binary.to_bytes(made._replace(constants=table.tobytes())), CHIP)


@pytest.mark.parametrize("whole", [0, -4, 1025])
def test_mixtures_of_weights_beyond_what_sums_hold_are_refused(whole):
    made, _ = blended()
    commands = made.commands.copy()
    commands["kernel"][0, 1] = whole
    with pytest.raises(VsiError, match="numbers that do not fit each other"):
        binary.from_bytes(binary.to_bytes(made._replace(commands=commands)), CHIP)


@pytest.mark.parametrize("number", [-1, 6, 1 << 30])
@pytest.mark.parametrize("at", [0, -1])
def test_pixels_that_an_image_does_not_have_are_refused(number, at):
    resize = p.Resize(name="r", inputs=(0,), output=1, mode="nearest", align_corners=False, half_pixel=False)
    program = p.Program("net", (tensor((1, 2, 6, 6)), tensor((1, 2, 9, 11))), (resize,), (0,), (1,))
    made = binary.from_bytes(ModelDriver().compile(program, CHIP, lambda *_: None), CHIP)
    positions = np.frombuffer(made.constants, np.int32).copy()
    positions[:20][at] = number
    with pytest.raises(VsiError, match="a command picks rows or columns that an image of 6x6 does not have"):
        binary.from_bytes(binary.to_bytes(made._replace(constants=positions.tobytes())), CHIP)
