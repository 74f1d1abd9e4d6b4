"""Where the network of a compilation comes from, and whether its weights may be consumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..graph.graph import Graph
from ..graph.state import State
from ..graph.symbolic_inference import output_infos
from ..graph.tensor import TensorInfo


class NetworkSource:
    """A network to compile.

    Weights are consumed where nobody else needs the network: it is then optimized itself, not a
    copy, and its values go one by one while backends pack them. What is consumed can be read again.

    Args:
        network: The network.
        read_again: Makes an equal network anew, as from its file. Who gives it promises that nobody
            else has the network or its arrays. None: the network is the caller's, it is never
            changed.

    Attributes:
        name: Of the network.
        is_own: Nobody else has the network.
        states: What it remembers from one run to the next.
        metadata: What its file says of itself, as text by name.
        labels: What callers call outputs, by the name of the layer, where it is another.
    """

    def __init__(self, network: Graph, read_again: Callable[[], Graph] | None = None) -> None:
        self._network: Graph | None = network
        self._read_again = read_again
        self._output_infos: Mapping[str, TensorInfo | None] | None = None
        self.name = network.name
        self.is_own = read_again is not None
        self.states = network.states
        self.metadata = network.metadata
        self.labels: Mapping[str, str] = {}

    @classmethod
    def unread(
        cls, name: str, states: Mapping[str, State], metadata: Mapping[str, str], read: Callable[[], Graph]
    ) -> NetworkSource:
        """Return the source of a network that is read when somebody asks for it.

        Args:
            name: Of the network.
            states: Of the network.
            metadata: Of the network.
            read: Reads it; nobody else has what this returns.
        """
        made = cls.__new__(cls)
        made._network, made._read_again, made._output_infos = None, read, None
        made.name, made.is_own, made.states, made.metadata, made.labels = name, True, states, metadata, {}
        return made

    @property
    def is_consumable(self) -> bool:
        """Whether the weights may be consumed."""
        return self._read_again is not None

    @property
    def network(self) -> Graph:
        """The original network, unchanged; read again each time once it was consumed."""
        if self._network is not None:
            return self._network
        assert self._read_again is not None  # else it was never consumed
        return self._read_again()

    def output_infos(self) -> Mapping[str, TensorInfo | None]:
        """What is known of outputs by name, in terms of the inputs' symbols; worked out once."""
        if self._output_infos is None:
            self._output_infos = output_infos(self.network)
        return self._output_infos

    def output_infos_later(self) -> Callable[[], Mapping[str, TensorInfo | None]]:
        """Return what tells `output_infos` of the network as it is now.

        Hardly anybody asks for it, and to work it out takes as long as to copy the network.
        """
        if not self.is_own:  # its owner may change it
            self.output_infos()
        return self.output_infos

    def take(self) -> Graph:
        """Return the network to compile it: itself if it is consumable, else a copy.

        Whoever takes it may change it.
        """
        network = self.network
        if self.is_consumable:
            self._network = None
        return network

    def with_outputs(self, names: Sequence[str], states: Mapping[str, State]) -> NetworkSource:
        """Return a source of the same network with other outputs.

        Args:
            names: Of outputs, or of slots as `OutputSlot.name` says them.
            states: Of the network's; it has their outputs, too.

        Raises:
            InputError: There is nothing of this name (`OUTPUT_NAME`).
            ModelError: It would be read again from a file that is not there any more, or is
                another.
        """
        from .chosen_outputs import choose_outputs

        read_again = self._read_again

        def chosen() -> tuple[Graph, Mapping[str, str]]:
            network = self.network.copy() if read_again is None else read_again()
            return network, choose_outputs(network, names, [state.output for state in states.values()])

        network, labels = chosen()
        made = NetworkSource(network, None if read_again is None else lambda: chosen()[0])
        made.labels, made.states, made.metadata = labels, states, self.metadata
        return made

    def keep(self) -> None:
        """Consume it no more: it will be compiled again and again, for other sizes or values."""
        self._network = self.network
        self._read_again = None
