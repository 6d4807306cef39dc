"""Factory of the channels of one worker: combines transport, codec, bit policy, cache and sampler."""

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
from gnnqlab.message.samplers import AllRows, Sampler
from gnnqlab.message.transport.preposted_receives import PrepostedReceives
from gnnqlab.message.transport.transport import Transport
from gnnqlab.observe import NO_OBSERVERS, Observers
from gnnqlab.partition.plan import Plan

__all__ = ["ChannelFactory"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ChannelFactory:
    """Settings that all channels of one worker share, and methods that create the channels."""

    transport: Transport
    """Transport for messages of training passes."""
    seed: int = 0
    """Seed of the rounding noise."""
    codec: Codec | ByDirection = field(default_factory=Float32)
    """Codec of rows."""
    bits: BitPolicy | ByDirection = field(default_factory=Fixed)
    """Bit policy."""
    cache: RunningCache = field(default_factory=NoCache)
    """Cache that selects changed rows."""
    sampler: Sampler = field(default_factory=AllRows)
    """Sampler of boundary rows."""
    exact_transport: Transport | None = None
    """Transport for rows outside training (evaluation, static rows); by default ``transport``."""
    run: int | None = None
    """Run number in message headers; ``None`` sends messages without headers."""
    keep_static: bool = False
    """True if static rows are sent once and stored by the receiver."""
    counting: Counting = field(default_factory=Counting)
    """Switch for counting the codes of received messages."""
    _known_layouts: KnownLayouts = field(default_factory=WeakTensorKeyDictionary, init=False, repr=False)

    def __post_init__(self) -> None:
        # A part that was not built by a System may lack the defaults of its axis.
        for direction in ("forward", "backward"):
            complete(of_direction(self.codec, direction), Codec)
            complete(of_direction(self.bits, direction), BitPolicy)
        complete(self.cache, RunningCache)

    @property
    def holds_rows(self) -> bool:
        """True if receivers reuse copies of rows that were not sent."""
        return self.cache.build() is not None

    @property
    def observers(self) -> Observers:
        """Observers that receive events of the messages of training passes."""
        return self.counting.observers

    def codec_of(self, direction: str) -> Codec:
        """Return the codec of a direction."""
        codec: Codec = of_direction(self.codec, direction)
        return codec

    def rounds(self, direction: str) -> bool:
        """True if messages of a direction may be quantized."""
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
        """Create the channel of an exchange key for training; if the plan is exact, float32 and without a cache."""
        options: dict[str, Any] = {
            **self._common_options(place, plan),
            "codec": Float32() if plan.exact else self.codec_of(place.direction).codec_at(place),
            "bits": Fixed() if plan.exact else of_direction(self.bits, place.direction),
            "transport": self.transport,
            "phases": phases,
            "launch": launch,
            "keeps_buffers": keeps_buffers,
            "buffers": buffers,
            # Layouts are only shared between channels of one codec, because they depend on its parameter bytes.
            "known": None if plan.exact or isinstance(self.codec, ByDirection) else self._known_layouts,
            "observers": NO_OBSERVERS if plan.exact else self.observers,
        }
        selection = None if plan.exact else self._selection(place, plan)
        # Receives of messages whose length depends on a cache are not preposted.
        return Channel(selection=selection, ahead=ahead if selection is None else None, **options)

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
        """Create the channel of a broadcast block; an exact one has float32 rows and never skips."""
        options: dict[str, Any] = {
            **self._common_options(place, plan),
            "codec": Float32() if exact else self.codec_of(place.direction).codec_at(place),
            "bits": Fixed() if exact else of_direction(self.bits, place.direction),
            "transport": (self.exact_transport or self.transport) if exact else self.transport,
            "phases": phases,
            "launch": launch,
            "buffers": buffers,
            "slot": slot,
            "observers": NO_OBSERVERS if exact else self.observers,
        }
        if exact or place.direction == "backward" or not self.holds_rows:  # gradients are never skipped
            return Channel(**options)
        chooser, copies = self.cache.chooser_at(place), self.cache.held_at(place)
        assert copies is not None, "a cache of blocks must store them"
        return Channel(selection=SkippedBlock(plan.rank, chooser, copies), **options)

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
        """Create a channel that sends all rows in float32, for evaluation and static rows."""
        return Channel(
            **self._common_options(place, plan),
            codec=Float32(),
            bits=Fixed(),
            transport=self.exact_transport or self.transport,
            phases=phases,
            launch=launch,
            keeps_buffers=keeps_buffers,
            buffers=buffers,
        )

    def _selection(self, place: ExchangeKey, plan: Plan) -> AllRowsOfRoute | None:
        """Return the cache's selection for an exchange key; ``None`` without a cache."""
        # A cache may bring a selection of its own, as error feedback does; most only choose rows.
        selection: AllRowsOfRoute | None = self.cache.selection_at(place, plan)
        if selection is not None:
            return selection
        chooser = self.cache.build()
        return None if chooser is None else SelectedRows(chooser, self.cache.held_at(place))

    def _common_options(self, place: ExchangeKey, plan: Plan) -> dict[str, Any]:
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
