"""What a tensor at the end of a network stands for, where the model file says so."""

from __future__ import annotations

from ..ground.records import Record


class Meaning(Record, frozen=True):
    """What the numbers of an input or an output are.

    Nothing is computed by it: programs that read pictures and sounds and show classes may go by it.

    Attributes:
        labels: Names of the classes, along the last axis. A file that does not say which output has
            the classes says it of each.
        mean: One number, or one per channel.
        deviation: The same. The network takes (pixel - mean) / deviation, pixels being 0 to 255;
            empty where the file does not say.
        rate: Samples a second of a sound; 0 where the file does not say.
    """

    labels: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    rate: int = 0
