"""Run random graphs on three backends against an independent evaluator in float64.

It knows neither the optimizer nor the runtime.
"""

import random

import numpy as np
import pytest

from dovetail import Network, Runtime

GRAPHS = 60


class Drawn:
    """A random graph, and how to compute it with NumPy."""

    def __init__(self, hard, seed):
        self.hard, self.luck = hard, random.Random(seed)
        self.values = np.random.default_rng(seed)
        self.net = Network(f"random{seed}")
        self.slots, self.recipes, self.feeds = [], [], {}
        self.outputs = {}
        for i in range(self.luck.randint(1, 3)):
            shape = self.luck.choice([(2, 12), (4, 6), (3, 8), (2, 3, 4), (1, 24), (24,), (2, 2, 6)])
            self.feeds[f"x{i}"] = self.values.standard_normal(shape).astype(np.float32)
            self.keep(self.net.input(f"x{i}", shape), lambda values, feeds, name=f"x{i}": feeds[name])
        for _ in range(self.luck.randint(4, 24)):
            self.luck.choice(
                [
                    self.activation,
                    self.activation,
                    self.residual,
                    self.product,
                    self.concat,
                    self.reshape,
                    self.permute,
                    self.dense,
                    self.python,
                    self.split,
                    self.twice,
                ]
            )()
        for i in range(self.luck.randint(1, 5)):
            chosen = self.luck.randrange(len(self.slots)) if self.luck.random() < 0.7 else len(self.slots) - 1
            self.net.output(self.slots[chosen], f"y{i}")
            self.outputs[f"y{i}"] = chosen

    def keep(self, slot, recipe):
        self.slots.append(slot)
        self.recipes.append(recipe)

    def pick(self):
        return self.luck.choice(range(max(0, len(self.slots) - 5), len(self.slots)))

    def peer(self, a):
        """Return a slot of the shape of `a`, which may be `a` itself."""
        return self.luck.choice([i for i, slot in enumerate(self.slots) if slot.shape == self.slots[a].shape])

    def activation(self):
        a = self.pick()
        name, function = self.luck.choice(
            [("relu", lambda v: np.maximum(v, 0)), ("relu", lambda v: np.maximum(v, 0)), ("tanh", np.tanh),
             ("sigmoid", lambda v: 1 / (1 + np.exp(-v)))]
        )  # fmt: skip
        self.keep(getattr(self.net, name)(self.slots[a]), lambda values, feeds: function(values[a]))

    def residual(self):
        a = self.pick()
        b = self.peer(a)
        self.keep(self.net.addition(self.slots[a], self.slots[b]), lambda values, feeds: values[a] + values[b])

    def twice(self):
        a = self.pick()
        self.keep(self.net.addition(self.slots[a], self.slots[a]), lambda values, feeds: values[a] + values[a])

    def product(self):
        a = self.pick()
        b = self.peer(a)
        self.keep(
            self.net.tanh(self.net.multiplication(self.slots[a], self.slots[b])),
            lambda values, feeds: np.tanh(values[a] * values[b]),
        )

    def concat(self):
        a = self.pick()
        parts = [a, *(self.peer(a) for _ in range(self.luck.randint(1, 2)))]
        if sum(int(np.prod(self.slots[i].shape)) for i in parts) > 500:
            return
        axis = self.luck.randrange(len(self.slots[a].shape))
        self.keep(
            self.net.concat([self.slots[i] for i in parts], axis=axis),
            lambda values, feeds: np.concatenate([values[i] for i in parts], axis),
        )

    def split(self):
        a = self.pick()
        shape = self.slots[a].shape
        axis = self.luck.randrange(len(shape))
        if shape[axis] % 2 == 0:
            for i, slot in enumerate(self.net.split(self.slots[a], 2, axis=axis)):
                self.keep(slot, lambda values, feeds, i=i: np.split(values[a], 2, axis)[i])

    def reshape(self):
        a = self.pick()
        n = int(np.prod(self.slots[a].shape))
        shape = self.luck.choice([s for s in [(n,), (n // 2, 2), (2, n // 2), (n // 4, 2, 2), (1, n)] if int(np.prod(s)) == n])
        self.keep(self.net.reshape(self.slots[a], shape), lambda values, feeds: values[a].reshape(shape))

    def permute(self):
        a = self.pick()
        order = list(range(len(self.slots[a].shape)))
        self.luck.shuffle(order)
        self.keep(self.net.permute(self.slots[a], order), lambda values, feeds: values[a].transpose(order))

    def dense(self):
        a = self.pick()
        depth = self.slots[a].shape[-1]
        units = self.luck.choice([depth, 4, 6])
        weights = (self.values.standard_normal((units, depth)) / np.sqrt(depth)).astype(np.float32)
        bias = self.values.standard_normal(units).astype(np.float32) if self.luck.random() < 0.5 else None
        self.keep(
            self.net.fully_connected(self.slots[a], weights, bias),
            lambda values, feeds: values[a] @ weights.T.astype(np.float64) + (0 if bias is None else bias),
        )

    def python(self):
        a = self.pick()
        self.keep(
            self.net.add(self.hard.Call(function="soften"), self.slots[a]).output, lambda values, feeds: soften(values[a])
        )

    def answers(self, feeds):
        values = []
        for recipe in self.recipes:
            values.append(recipe(values, {name: x.astype(np.float64) for name, x in feeds.items()}))
        return {name: values[chosen] for name, chosen in self.outputs.items()}


def soften(x):
    return x / (1 + np.abs(x))


@pytest.fixture(scope="module")
def runtimes():
    with Runtime(threads=1) as one, Runtime(threads=3) as three:
        yield one, three


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_random_graph(hard, device, runtimes, seed):
    from dovetail_reference import ReferenceBackend

    drawn = Drawn(hard, seed)
    luck = random.Random(seed + 1)
    backends = [device, hard.PythonBackend(soften=lambda inputs: soften(inputs[0])), ReferenceBackend()]
    luck.shuffle(backends)
    options = {"TestDevice": {"claim": luck.choice(["none", "layers", "whole"]), "delay_us": luck.choice([0, 20, 200])}}
    seen = {}
    loaded = []
    for passes in (True, False):
        for runtime in runtimes:
            net = runtime.load(drawn.net, optimize={"backends": backends, "options": options, "passes": passes})
            loaded.append(net)
            for run in range(3):
                feeds = {name: x * (1 + run) for name, x in drawn.feeds.items()}
                results = net.run(feeds)
                for name, expected in drawn.answers(feeds).items():
                    scale = np.abs(expected).max(initial=1)
                    np.testing.assert_allclose(results[name], expected, atol=3e-4 * scale, rtol=1e-4, err_msg=name)
                    # The order of summation may follow from how the graph was optimized, never from
                    # the threads.
                    bits = seen.setdefault((passes, run, name), results[name].tobytes())
                    assert bits == results[name].tobytes()
    for net in loaded:
        net.unload()


def test_the_graphs_use_every_backend(hard, device, runtimes):
    """A suite in which one backend never ran would prove nothing."""
    from dovetail_reference import ReferenceBackend

    backends = [device, hard.PythonBackend(soften=lambda inputs: soften(inputs[0])), ReferenceBackend()]
    steps, views = {}, 0
    for seed in range(GRAPHS):
        net = runtimes[0].load(Drawn(hard, seed).net, optimize={"backends": backends, "passes": False})
        for step in net.plan.steps:
            steps[step.backend] = steps.get(step.backend, 0) + 1
        views += len(net.memory.plan.elided)
        net.unload()
    assert min(steps.get(name, 0) for name in ("TestDevice", "PythonTest", "CpuRef")) > 50
    assert views > 20
