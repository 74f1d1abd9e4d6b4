"""Hostile sizes: recurrent layers."""

from __future__ import annotations

from dovetail import Network
from dovetail.graph.layer import OutputSlot

from .case import enter, flat, x_size, zeros


def _lstm(net: Network, x: OutputSlot, units: int) -> OutputSlot:
    return net.lstm(x, zeros(4 * units, x_size(x)), zeros(4 * units, units))[0]


def _gru(net: Network, x: OutputSlot, units: int) -> OutputSlot:
    return net.gru(x, zeros(3 * units, x_size(x)), zeros(3 * units, units))[0]


def _rnn(net: Network, x: OutputSlot, units: int) -> OutputSlot:
    return net.rnn(x, zeros(units, x_size(x)), zeros(units, units))[0]


def enter_cases() -> None:
    """Enter them into the table."""
    for name, build in (("lstm", _lstm), ("gru", _gru), ("rnn", _rnn)):
        enter(f"{name} of many steps", flat(None, 1, 1), lambda net, x, n, b=build: b(net, x, 2))
        enter(f"{name} of many sequences", flat(2, None, 1), lambda net, x, n, b=build: b(net, x, 2))
        enter(f"{name} of long steps", flat(2, 1, None), lambda net, x, n, b=build: b(net, x, 2))
        enter(f"{name} of many units", flat(2, 1, 2), lambda net, x, n, b=build: b(net, x, int(n**0.5) // 2))
