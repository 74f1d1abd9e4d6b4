"""What programs are known by: all that decides what they compute, and nothing else."""

from dataclasses import replace
from itertools import combinations

import numpy as np
from programs import tensor

from dovetail_npu_vsi import program as p
from dovetail_npu_vsi.program.digest import digest


def net(scales=(0.5, 0.25), zeros=(0, 0), values=None, bias=(1, 2), name="fc", **more):
    """A program of one fully connected layer."""
    values = np.arange(12, dtype=np.int8).reshape(2, 6) if values is None else values
    weights = p.Weights(values, scales, zeros, np.array(bias, np.int32))
    operation = p.FullyConnected(name=name, inputs=(0,), output=1, weights=weights, **{"low": 0, "high": 255, **more})
    return p.Program("net", (tensor((1, 6)), tensor((1, 2))), (operation,), (0,), (1,))


def others():
    """Programs that all differ in one thing."""
    values = np.arange(12, dtype=np.int8).reshape(2, 6)
    changed = values.copy()
    changed[1, 5] ^= 1
    one = net()
    return [
        one,
        net(scales=(0.5, np.nextafter(0.25, 1).item())),
        net(scales=(0.25, 0.5)),
        net(scales=(0.5,)),
        net(scales=()),
        net(scales=(1, 0.25)),
        net(scales=(1.0, 0.25)),
        net(scales=(True, 0.25)),
        net(zeros=(0, 1)),
        net(zeros=(0, 0.0)),
        net(zeros=(0.0, 0.0)),
        net(zeros=((0, 0),)),
        net(values=changed),
        net(values=values.view(np.uint8)),
        net(values=values.reshape(2, 3, 2)),
        net(values=values.reshape(6, 2)),
        net(values=values.view(np.int16)),
        net(bias=(2, 1)),
        net(high=254),
        replace(one, inputs=(0, 0)),
        replace(one, tensors=(tensor((1, 6), 0.75), one.tensors[1])),
    ]


def test_whatever_differs_has_another_digest():
    found = [digest(one) for one in others()]
    same = [(a, b) for a, b in combinations(range(len(found)), 2) if found[a] == found[b]]
    assert not same, same


def test_names_do_not_count():
    one = net()
    layer = replace(one.operations[0], name="other", sources=("two", "layers"))
    tensors = tuple(replace(tensor, name=f"input {number}") for number, tensor in enumerate(one.tensors))
    assert digest(replace(one, name="net2", operations=(layer,), tensors=tensors)) == digest(one)


def test_what_is_equal_has_the_same_however_it_lies_in_memory():
    values = np.arange(24, dtype=np.int8).reshape(2, 12)[:, ::2]
    assert digest(net(values=values)) == digest(net(values=values.copy())) == digest(net(values=np.asfortranarray(values)))
    assert [digest(one) for one in others()] == [digest(one) for one in others()]
