"""State of the partition explorer: the current partition, the quantity drawn, and the costs computed so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.bits.policy import UniformRandom
from gnnqlab.course.players.partition_views import draw_shares, draw_sharing, share_table
from gnnqlab.graph.sources import load
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.graph_map import COLORINGS, draw
from gnnqlab.lab.figures.grid_places import LARGEST_WHOLE
from gnnqlab.partition.ebv import EBV
from gnnqlab.partition.edge_cut import METIS, Random
from gnnqlab.partition.hep import HEP
from gnnqlab.partition.parts import Parts, partition
from gnnqlab.partition.streamed import RandomEdges

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.bits.policy import BitPolicy
    from gnnqlab.graph.convert.given import GraphLike

__all__ = ["MAX_PARTS", "PARTITIONERS", "ExplorerModel"]

PARTITIONERS = {"METIS": METIS, "random": Random, "EBV": EBV, "HEP": HEP, "random edges": RandomEdges}
"""Displayed name -> partitioner."""
MAX_PARTS = 16


class ExplorerModel:
    """State of the explorer: graph, partitioner, numbers of parts and hosts; costs of earlier choices are cached.

    Example:
        >>> import gnnqlab as gq
        >>> model = ExplorerModel(gq.load("sbm:60,3,6"), partitioner="random", parts=4)
        >>> model.parts.workers, model.table.index.tolist()
        (4, [1, 2, 4, 8, 16])
    """

    def __init__(
        self,
        graph: GraphLike,
        *,
        partitioner: str = "METIS",
        parts: int = 4,
        most_parts: int = MAX_PARTS,
        hosts: int = 1,
        bits: BitPolicy | None = None,
    ) -> None:
        self.graph = load(graph)
        if self.graph.num_nodes < 2:
            raise ValueError(f"a graph to partition must have at least 2 nodes, got {self.graph.num_nodes}")
        self.most_parts = max(min(most_parts, self.graph.num_nodes), 2)  # at most one part per node
        """Largest number of parts that can be chosen."""
        self._lines: dict[tuple[str, int, int], DataFrame] = {}  # (partitioner, parts, hosts) -> line of the table
        self._metis_is_missing: str | None = None
        self.partitioner, self.number, self.hosts = partitioner, parts, hosts
        self.bits = bits if bits is not None else UniformRandom()
        """Bit policy of the drawn bit-widths and rounding errors."""
        self.show = COLORINGS[0]
        """Quantity drawn for the nodes, one of ``views``."""
        self.sender: int | None = None
        """Worker that sends the highlighted rows."""
        self.receiver: int | None = None
        """Worker that receives them; without a sender, in the view ``halo``, the worker whose shard is drawn."""
        self.around: int | None = None if self.graph.num_nodes <= LARGEST_WHOLE else 0  # a small graph is drawn whole
        """Node whose neighbourhood is drawn, for a large graph."""
        self.choose()

    @property
    def available_partitioners(self) -> tuple[str, ...]:
        """Partitioners available on this machine."""
        return tuple(name for name in PARTITIONERS if name != "METIS" or self._metis_is_missing is None)

    @property
    def note(self) -> str:
        """Reason that a partitioner is not available; empty if all are."""
        return self._metis_is_missing or ""

    def choose(self, *, partitioner: str | None = None, parts: int | None = None, hosts: int | None = None) -> None:
        """Partition the graph with other settings.

        Without pymetis and DGL there is no METIS: then the partition is random, and ``note`` has the reason.

        Raises:
            ValueError: if there is no such partitioner, the number of parts is out of range, or it is no multiple of
                the number of hosts.
        """
        name = self.partitioner if partitioner is None else partitioner
        number = self.number if parts is None else parts
        num_hosts = self.hosts if hosts is None else hosts
        if name not in PARTITIONERS:
            raise ValueError(f"partitioner must be one of {tuple(PARTITIONERS)}, got {name!r}")
        if not 1 <= number <= self.most_parts:
            raise ValueError(f"parts must lie in [1, {self.most_parts}] for this graph, got {number}")
        if num_hosts < 1 or number % num_hosts:
            raise ValueError(f"parts must be a multiple of the hosts, got {number} part(s) on {num_hosts} host(s)")
        # METIS is missing on some machines; remember the reason, and do not offer it again.
        try:
            cut = self._cut(name, number, num_hosts)
        except RuntimeError as error:
            self._metis_is_missing, name = str(error), "random"
            cut = self._cut(name, number, num_hosts)
        self.partitioner, self.number, self.hosts = name, number, num_hosts
        self.parts = cut
        """Current partition, the one that a run would train on."""
        if self.show not in self.views:  # another kind of cut may lack the current view
            self.show = COLORINGS[0]
        if max(self.sender or 0, self.receiver or 0) >= number:  # that worker no longer exists
            self.sender = self.receiver = None

    @property
    def views(self) -> tuple[str, ...]:
        """Quantities that can be drawn: bit-widths need an edge-cut, rounding errors also dense features."""
        if self.parts.shards[0].cuts != "nodes":
            # Vertex-cuts show owner and copies only.
            return COLORINGS[:2]
        return COLORINGS if hasattr(self.graph.features, "numpy") else COLORINGS[:3]

    def set_view(
        self, show: str | None = None, *, sender: int | None = None, receiver: int | None = None,
        around: int | None = None,
    ) -> None:  # fmt: skip
        """Change the quantity drawn and the pair of workers (none by default).

        Raises:
            ValueError: if this partition has no such view, there is no such worker or node, or both workers are one.
        """
        view = self.show if show is None else show
        if view not in self.views:
            raise ValueError(f"show must be one of {self.views} for this partition, got {view!r}")
        for worker in (sender, receiver):
            if worker is not None and not 0 <= worker < self.number:
                raise ValueError(f"a worker must be one of 0 to {self.number - 1}, got {worker}")
        if sender is not None and sender == receiver:
            raise ValueError(f"a worker sends itself nothing, got {sender} twice; choose two workers")
        if around is not None and not 0 <= around < self.graph.num_nodes:
            raise ValueError(f"around must be a node, 0 to {self.graph.num_nodes - 1:,}, got {around:,}")
        self.show, self.sender, self.receiver = view, sender, receiver
        if around is not None and self.around is not None:  # a small graph stays whole
            self.around = around

    def map(self, *, dark: bool = False) -> FigureData:
        """Draw the partitioned graph, see `gnnqlab.lab.figures.graph_map.draw`."""
        pair = None if self.sender is None or self.receiver is None else (self.sender, self.receiver)
        # the shard of one worker, without a pair
        worker = self.receiver if pair is None and self.show == "halo" else None
        # only views of messages need bit-widths
        bits = self.bits if self.views != COLORINGS[:2] and (self.show in COLORINGS[2:]) else None
        return draw(self.parts, self.show, worker=worker, pair=pair, bits=bits, around=self.around, dark=dark)

    @property
    def table(self) -> DataFrame:
        """`share_table` of this partitioner for 1, 2, 4, 8 … parts (multiples of the hosts) and the chosen number."""
        return self._table(self.partitioner)

    @property
    def code(self) -> str:
        """Line of Python that makes this partition."""
        hosts = f", hosts={self.hosts}" if self.hosts > 1 else ""
        partitioner = f"gq.partitioners.{PARTITIONERS[self.partitioner].__name__}()"
        return f"gq.partition(graph, {partitioner}, workers={self.number}{hosts})"

    def sharing(self, *, dark: bool = False) -> FigureData:
        """Draw this partition: rows by kind, rows by pair of workers."""
        return draw_sharing(self.parts, dark=dark)

    def shares(self, *, dark: bool = False) -> FigureData:
        """Draw the costs of every available partitioner over the number of parts."""
        return draw_shares(
            {name: self._table(name) for name in self.available_partitioners}, parts=self.number, dark=dark
        )

    def _table(self, name: str) -> DataFrame:
        import pandas as pd

        powers = (2**power for power in range(11) if 2**power <= self.most_parts)  # 1, 2, 4, ... up to the limit
        # equally many parts per host
        keys = [(name, number, self.hosts) for number in sorted({*powers, self.number}) if number % self.hosts == 0]
        for key in keys:
            if key not in self._lines:
                self._lines[key] = share_table([self._cut(*key)])
        return pd.concat([self._lines[key] for key in keys])

    def _cut(self, name: str, number: int, hosts: int) -> Parts:
        return partition(self.graph, PARTITIONERS[name](), workers=number, hosts=hosts)
