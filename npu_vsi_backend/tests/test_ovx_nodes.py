"""Operations become nodes of ovxlib, as a double of it is told, or are refused in words."""

import pytest

IMAGE = "(1, 8, 12, 16)"
PLAIN = "stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1)"
NODES = {
    "convolution": (
        "one(Convolution, (1, 4, 9, 11), (1, 8, 5, 4), weights=weights((8, 4, 3, 5)), stride=(2, 3), padding=(1, 3, 2, 4), "
        "dilation=(1, 2), groups=1)",
        ["node 2 of 0: 0,2,3 to 1 kernel 5,3 stride 3,2 pad 3,4,1,2 dilation 2,1 weights 8 group 1 multiplier 0"],
    ),
    "depthwise": (
        f"one(Convolution, {IMAGE}, (1, 8, 10, 14), weights=weights((8, 1, 3, 3)), {PLAIN}, groups=8)",
        [
            "tensor 2 3x3x8x1 type 3 quantized 2 virtual 0 constant 1",
            "node 2 of 0: 0,2,3 to 1 kernel 3,3 stride 1,1 pad 0,0,0,0 dilation 1,1 weights 8 group 8 multiplier 1",
        ],
    ),
    "groups": (
        f"one(Convolution, {IMAGE}, {IMAGE}, weights=weights((8, 4, 1, 1), 8), {PLAIN}, groups=2)",
        [
            "tensor 2 1x1x4x8 type 2 quantized 3 virtual 0 constant 1",
            "tensor 3 8 type 6 quantized 3 virtual 0 constant 1",
            "node 105 of 0: 0,2,3 to 1 kernel 1,1 stride 1,1 pad 0,0,0,0 dilation 1,1 weights 8 group 2 multiplier 0",
        ],
    ),
    "relu": (
        "one(FullyConnected, (2, 8), (2, 4), weights=weights((4, 8)), low=100)",
        ["node 28 of 0: 0,2,3 to 4", "node 22 of 0: 4 to 1"],
    ),
    "relu6": ("one(low=100, high=112)", ["node 48 of 0: 0 to 2", "node 35 of 0: 2 to 1"]),
    "clamp": (
        "one(low=90, high=110)",
        [
            "tensor 4 1x1 type 3 quantized 2 virtual 0 constant 1",
            "node 48 of 0: 0 to 2",
            "node 31 of 0: 2,4 to 3",
            "node 75 of 0: 3,5 to 1",
        ],
    ),
    "clamp below": ("one(low=90)", ["node 48 of 0: 0 to 2", "node 31 of 0: 2,3 to 1"]),
    "clamp above": ("one(high=110)", ["node 48 of 0: 0 to 2", "node 75 of 0: 2,3 to 1"]),
    "max": (
        "one(Pooling, (1, 8, 9, 9), (1, 8, 4, 3), function='max', size=(2, 3), stride=(2, 3), padding=(0, 1, 1, 2), "
        "count_padding=False)",
        ["node 8 of 0: 0 to 1 type 0x1b000 kernel 3,2 stride 3,2 pad 1,2,0,1"],
    ),
    "average": (
        "one(Pooling, (1, 8, 8, 8), function='average', size=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1), count_padding=False)",
        ["node 8 of 0: 0 to 1 type 0x71b001 kernel 3,3 stride 1,1 pad 1,1,1,1"],
    ),
    "average of all": (
        "one(Pooling, (1, 8, 8, 8), function='average', size=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1), count_padding=True)",
        ["node 8 of 0: 0 to 1 type 0x1b001 kernel 3,3 stride 1,1 pad 1,1,1,1"],
    ),
    "softmax": ("one(Softmax, (2, 3, 4, 5), axis=1, beta=2.0)", ["node 7 of 0: 0 to 1 beta 2 axis 2"]),
    "concat": (
        "one(Concat, tensors=(Tensor('a', (1, 3, 4), 'uint8', 0.5, 100), Tensor('b', (1, 2, 4), 'uint8', 0.25, 100), "
        "Tensor('y', (1, 5, 4), 'uint8', 0.5, 100)), axis=1)",
        ["node 48 of 0: 1 to 3", "node 11 of 0: 0,3 to 2 axis 1"],
    ),
    "depthwise with zeros between its weights": (
        f"one(Convolution, {IMAGE}, (1, 8, 4, 7), weights=weights((8, 1, 3, 3)), stride=(2, 2), padding=(0, 0, 0, 0), "
        "dilation=(2, 1), groups=8)",
        [
            "tensor 2 3x5x8x1 type 3 quantized 2 virtual 0 constant 1",
            "node 2 of 0: 0,2,3 to 1 kernel 3,5 stride 2,2 pad 0,0,0,0 dilation 1,1 weights 8 group 8 multiplier 1",
        ],
    ),
    "depthwise with a border above alone": (
        f"one(Convolution, {IMAGE}, (1, 8, 12, 14), weights=weights((8, 1, 3, 3)), stride=(1, 1), padding=(2, 0, 0, 0), "
        "dilation=(1, 1), groups=8)",
        ["node 2 of 0: 0,2,3 to 1 kernel 3,3 stride 1,1 pad 0,0,2,0 dilation 1,1 weights 8 group 8 multiplier 1"],
    ),
    "depthwise on the shader with a border above alone": (
        "one(Convolution, (1, 8, 18, 16), (1, 8, 4, 16), weights=weights((8, 1, 17, 1)), stride=(1, 1), padding=(2, 0, 0, 0), "
        "dilation=(1, 1), groups=8)",
        [
            "node 165 of 0: 0 to 2 front 0,2 back 0,0 of 4 value 0",
            "node 2 of 0: 2,3,4 to 1 kernel 1,17 stride 1,1 pad 0,0,0,0 dilation 1,1 weights 8 group 8 multiplier 1",
        ],
    ),
    "of a batch with a large dilation of rows": (
        "one(Convolution, (2, 4, 24, 24), (2, 8, 4, 24), weights=weights((8, 4, 5, 1)), stride=(1, 1), padding=(0, 0, 0, 0), "
        "dilation=(5, 1), groups=1)",
        [
            "tensor 2 1x21x4x8 type 3 quantized 2 virtual 0 constant 1",
            "node 2 of 0: 0,2,3 to 1 kernel 1,21 stride 1,1 pad 0,0,0,0 dilation 1,1 weights 8 group 1 multiplier 0",
        ],
    ),
    "depthwise with a scale for each channel and one border": (
        f"one(Convolution, {IMAGE}, (1, 8, 6, 8), weights=weights((8, 1, 3, 3), 8), stride=(2, 2), padding=(0, 0, 1, 1), "
        "dilation=(1, 1), groups=8)",
        [
            "node 165 of 0: 0 to 2 front 0,0 back 1,1 of 4 value 0",
            "node 2 of 0: 2,3,4 to 1 kernel 3,3 stride 2,2 pad 0,0,0,0 dilation 1,1 weights 8 group 8 multiplier 1",
        ],
    ),
    "depthwise with a scale for each channel and other strides": (
        f"one(Convolution, {IMAGE}, (1, 8, 12, 8), weights=weights((8, 1, 3, 3), 8), stride=(1, 2), padding=(1, 1, 1, 1), "
        "dilation=(1, 1), groups=8)",
        [
            "tensor 2 3x3x8x8 type 2 quantized 3 virtual 0 constant 1",
            "node 2 of 0: 0,2,3 to 1 kernel 3,3 stride 2,1 pad 1,1,1,1 dilation 1,1 weights 8 group 1 multiplier 0",
        ],
    ),
    "in groups with a scale for each channel, of a batch": (
        "one(Convolution, (2, 8, 9, 9), (2, 6, 9, 9), weights=weights((6, 4, 3, 3), 6), stride=(1, 1), padding=(1, 1, 1, 1), "
        "dilation=(1, 1), groups=2)",
        [
            "tensor 2 3x3x8x6 type 2 quantized 3 virtual 0 constant 1",
            "node 2 of 0: 0,2,3 to 1 kernel 3,3 stride 1,1 pad 1,1,1,1 dilation 1,1 weights 6 group 1 multiplier 0",
        ],
    ),
    "pad with negative numbers": (
        "one(Pad, (4, 5), (5, 8), before=(1, 0), after=(0, 3), value=99)",
        [
            "tensor 2 5x1 type 3 quantized 2 virtual 0 constant 1",
            "node 11 of 0: 2,0 to 3 axis 1",
            "tensor 4 3x5 type 3 quantized 2 virtual 0 constant 1",
            "node 11 of 0: 3,4 to 1 axis 0",
        ],
    ),
    "scalar": ("one(Reshape, (1, 1), ())", ["node 162 of 0: 0 to 1 size 1,0 of 1"]),
    "pad": (
        "one(Pad, (4, 5), (5, 8), before=(1, 0), after=(0, 3), value=104)",
        ["node 165 of 0: 0 to 1 front 0,1 back 3,0 of 2 value 2"],
    ),
    "permute": ("one(Permute, (2, 3, 4, 5), (2, 4, 5, 3), order=(0, 2, 3, 1))", ["node 19 of 0: 0 to 1 order 2,0,1,3"]),
    "reshape": ("one(Reshape, (4, 6), (3, 8))", ["node 162 of 0: 0 to 1 size 8,3 of 2"]),
    "resize": (
        "one(Resize, (1, 8, 4, 6), (1, 8, 12, 6), mode='bilinear', align_corners=True, half_pixel=False)",
        ["node 44 of 0: 0 to 1 type 1 size 6,12 corners 1 half 0"],
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_operations_become_nodes(scene, name):
    """Sizes, windows and axes are listed backwards there."""
    program, lines = NODES[name]
    scene(
        f"""
binary({program})
for line in {lines!r}:
    assert line in log(), (line, [line for line in log() if line[0] in "nt"])
assert sum(line.startswith("node ") for line in log()) == sum(line.startswith("node ") for line in {lines!r})
assert not left(), left()
"""
    )


REFUSED = {
    f"one(Convolution, {IMAGE}, (1, 8, 9, 9), weights=weights((8, 1, 2, 2)), stride=(1, 1), padding=(2000, 2000, 2000, 2000), "
    "dilation=(2000, 2000), groups=8)": "32032008",
    "one(Binary, tensors=(Tensor('x', (4,), 'uint8', 0.5, 1), Tensor('y', (4,), 'uint8', 0.5, 1)), inputs=(0, 0), "
    "function='add')": "with itself",
    "one(Function, function='shrink', alpha=1.0, beta=1.0)": "'shrink'",
    "one(x=(1,) * 7)": "7 axes",
    "one(x=(4, 0))": "without elements",
    "one(tensors=(Tensor('x', (4,), 'int8', 0.5, 1), Tensor('y', (4,), 'uint8', 0.5, 1)))": "'x' of int8",
    "one(Pooling, (8, 8, 8), function='max', size=(2, 2), stride=(1, 1), padding=(0, 0, 0, 0), count_padding=False)": "3 axes",
    "one(Resize, (1, 8, 4, 6), (1, 8, 6, 9), mode='bilinear', align_corners=False, half_pixel=True)": "4x6 to 6x9",
}


@pytest.mark.parametrize("program", REFUSED)
def test_what_ovxlib_cannot_do_is_refused_in_words(scene, program):
    scene(
        f"""
program = {program}
why = driver().refusal(program.operations[0], program, CHIPS[0])
assert {REFUSED[program]!r} in why, why
assert why in str(error_of(binary, program))
assert not calls()["vsi_nn_SetupGraph"]
"""
    )
