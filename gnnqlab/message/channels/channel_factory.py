"""Everything between rows and bytes of one worker, joined: whoever exchanges rows asks for channels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch.utils.weak import WeakTensorKeyDictionary

from gnnqlab.axis_part import complete
from gnnqlab.bits.policy import BitPolicy, Fixed
from gnnqlab.message.caches.cache import NoCache, RunningCache
from gnnqlab.message.channels.blocks import SkippedBlock
from gnnqlab.message.channels.channel import ByteBuffers, Channel
from gnnqlab.message.channels.layouts import KnownLayouts
from gnnqlab.message.channels.selected_rows import SelectedRows
from gnnqlab.message.channels.selection import AllRowsOfRoute
from gnnqlab.message.codecs.codec import Codec, Float32
from gnnqlab.message.codecs.entropy import Counting
from gnnqlab.message.direction import ByDirection, of_direction
from gnnqlab.message.exchange_key import ExchangeKey, Phases, at_once, no_phases
from gnnqlab.message.sampler import AllRows, Sampler
from gnnqlab.message.transport.preposted_receives import PrepostedReceives
from gnnqlab.message.transport.transport import Transport
from gnnqlab.observe import NO_OBSERVERS, Observers
from gnnqlab.partition.plan import Plan

__all__ = ["ChannelFactory"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ChannelFactory:
    """How the rows of one worker travel."""

    transport: Transport
    """Moves messages of training passes."""
    seed: int = 0
    """Of the noise."""
    codec: Codec | ByDirection = field(default_factory=Float32)
    """How a row becomes bytes."""
    bits: BitPolicy | ByDirection = field(default_factory=Fixed)
    """Widths in force."""
    cache: RunningCache = field(default_factory=NoCache)
    """Which rows changed enough to be sent."""
    sampler: Sampler = field(default_factory=AllRows)
    """Which boundary rows travel in an epoch."""
    exact_transport: Transport | None = None
    """Moves rows outside training (evaluation, static rows); by default the same."""
    run: int | None = None
    """Number of the run in the headers of messages; ``None`` sends messages without headers."""
    keep_static: bool = False
    """Whether static rows travel once and are kept."""
    counting: Counting = field(default_factory=Counting)
    """Says whether the codes of messages that come are counted."""
    _known: KnownLayouts = field(default_factory=WeakTensorKeyDictionary, init=False, repr=False)

    def __post_init__(self) -> None:
        # A part that did not come from a System may lack the defaults of its axis.
        for direction in ("forward", "backward"):
            complete(of_direction(self.codec, direction), Codec)
            complete(of_direction(self.bits, direction), BitPolicy)
        complete(self.cache, RunningCache)

    @property
    def holds_rows(self) -> bool:
        """Whether receivers hold rows that did not travel this time."""
        return self.cache.build() is not None

    @property
    def observers(self) -> Observers:
        """Those that receive events of messages of training passes."""
        return self.counting.observers

    def codec_of(self, direction: str) -> Codec:
        """Return the codec of a direction."""
        codec: Codec = of_direction(self.codec, direction)
        return codec

    def rounds(self, direction: str) -> bool:
        """Whether rows of a direction may be rounded on their way."""
        bits = of_direction(self.bits, direction)
        return self.codec_of(direction).widths != (32,) and tuple(bits.choices) != (32,)

    def channel(
        self,
        place: ExchangeKey,
        plan: Plan,
        *,
        phases: Phases = no_phases,
        launch: Callable[[Callable[[], None]], None] = at_once,
        keeps_buffers: bool = True,
        buffers: ByteBuffers | None = None,
        ahead: PrepostedReceives | None = None,
    ) -> Channel:
        """Return the channel of a place for training passes; float32, with every row, where the plan is exact."""
        of_channel: dict[str, Any] = {
            **self._of(place, plan),
            "codec": Float32() if plan.exact else self.codec_of(place.direction),
            "bits": Fixed() if plan.exact else of_direction(self.bits, place.direction),
            "transport": self.transport,
            "phases": phases,
            "launch": launch,
            "keeps_buffers": keeps_buffers,
            "buffers": buffers,
            "known": None if plan.exact or isinstance(self.codec, ByDirection) else self._known,
            "observers": NO_OBSERVERS if plan.exact else self.observers,
        }
        selection = None if plan.exact else self._selection(place, plan)
        # Receives are not posted ahead of messages whose bytes a cache decides.
        return Channel(selection=selection, ahead=ahead if selection is None else None, **of_channel)

    def block_channel(
        self,
        place: ExchangeKey,
        plan: Plan,
        *,
        buffers: ByteBuffers,
        slot: int,
        exact: bool = False,
        phases: Phases = no_phases,
        launch: Callable[[Callable[[], None]], None] = at_once,
    ) -> Channel:
        """Return the channel of a block that goes to all; an exact one has float32 rows, and skips nothing."""
        of_channel: dict[str, Any] = {
            **self._of(place, plan),
            "codec": Float32() if exact else self.codec_of(place.direction),
            "bits": Fixed() if exact else of_direction(self.bits, place.direction),
            "transport": (self.exact_transport or self.transport) if exact else self.transport,
            "phases": phases,
            "launch": launch,
            "buffers": buffers,
            "slot": slot,
            "observers": NO_OBSERVERS if exact else self.observers,
        }
        if exact or place.direction == "backward" or not self.holds_rows:
            return Channel(**of_channel)
        chooser, held = self.cache.chooser_at(place), self.cache.held_at(place)
        assert held is not None, "a cache of blocks keeps them"
        return Channel(selection=SkippedBlock(plan.rank, chooser, held), **of_channel)

    def exact_channel(
        self,
        place: ExchangeKey,
        plan: Plan,
        *,
        phases: Phases = no_phases,
        launch: Callable[[Callable[[], None]], None] = at_once,
        keeps_buffers: bool = True,
        buffers: ByteBuffers | None = None,
    ) -> Channel:
        """Return a channel of float32 rows, all of them."""
        return Channel(
            **self._of(place, plan),
            codec=Float32(),
            bits=Fixed(),
            transport=self.exact_transport or self.transport,
            phases=phases,
            launch=launch,
            keeps_buffers=keeps_buffers,
            buffers=buffers,
        )

    def _selection(self, place: ExchangeKey, plan: Plan) -> AllRowsOfRoute | None:
        """Return which rows the cache sends at a place; ``None``: there is no cache."""
        own: AllRowsOfRoute | None = self.cache.selection_at(place, plan)
        if own is not None:
            return own
        chooser = self.cache.build()
        return None if chooser is None else SelectedRows(chooser, self.cache.held_at(place))

    def _of(self, place: ExchangeKey, plan: Plan) -> dict[str, Any]:
        layer, direction, round_ = place
        return {
            "layer": layer,
            "direction": direction,
            "round": round_,
            "plan": plan,
            "seed": self.seed,
            "run": self.run,
            "counting": self.counting,
        }
