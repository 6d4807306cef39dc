"""The exchange of an edge-cut: pull boundary rows forward, send the gradients of halo rows home.

Letters: N owned, C central, H halo, D features. For ``y = A [x; halo]`` with rows of A split central |
marginal, central rows need no halo; in the backward pass the gradients of halo rows, ``(A^T dy)[N:]``, go to
their owners and are added to ``(A^T dy)[:N]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gnnqlab.bits.policy import BitPolicy, Fixed
from gnnqlab.exchange.arrivals import AddedRows, PlacedRows
from gnnqlab.exchange.plans import backward_plan, forward_plan
from gnnqlab.exchange.sampling import Sampling
from gnnqlab.exchange.schedule import Came, Schedule, Step, Synchronous
from gnnqlab.exchange.stages import stages_on
from gnnqlab.exchange.timeline import Timeline
from gnnqlab.kernels.aggregate import Adjacency, spmm
from gnnqlab.message.channel import Channel, KnownLayouts, Pending, Phases, no_phases
from gnnqlab.message.codec import Codec, Float32
from gnnqlab.message.sampler import AllRows, Sampler
from gnnqlab.message.transport import Direct, Transport
from gnnqlab.partition.shard import Shard

__all__ = ["Call", "Halo", "HaloExchange", "SumBackward", "SumForward"]

_ALL = AllRows()


@dataclass(frozen=True)
class Halo:
    """Recipe part of the axis ``exchange``: halo rows are copies of their owners' rows (edge-cut)."""


class HaloExchange:
    """Every channel of one worker under an edge-cut, and the products around them."""

    def __init__(
        self,
        shard: Shard,
        *,
        codec: Codec,
        bits: BitPolicy,
        schedule: Schedule,
        transport: Transport,
        seed: int,
        sampler: Sampler = _ALL,
        exact_transport: Transport | None = None,
        run: int | None = None,
        keep_static: bool = False,
        device: torch.device | str = "cpu",
        phases: Phases = no_phases,
    ) -> None:
        """Prepare the exchange of one shard.

        Args:
            sampler: chooses which rows training passes exchange.
            exact_transport: moves rows outside training (evaluation, static rows); :class:`Direct` by default.
            run: number of the run in the headers of messages; ``None`` sends messages without headers.
            keep_static: whether static rows travel once and are kept.
            phases: the epoch's clock.
        """
        self.num_owned, self.num_central, self.num_halo = shard.num_owned, shard.num_central, shard.num_halo
        self._codec, self._bits, self._transport = codec, bits, transport
        self.lag = schedule.lag
        self.schedule = schedule.runner()
        """Runs the steps of training passes."""
        self._exact_transport = exact_transport or Direct(shard.rank, shard.workers)
        self._seed, self._run, self._keep_static = seed, run, keep_static
        self.timeline = Timeline(phases, stages_on(device))
        self._plans = {
            "forward": forward_plan(shard, device),
            "backward": backward_plan(shard, device),
        }
        self.sampling = Sampling(
            sampler,
            self._plans,
            num_owned=shard.num_owned,
            num_central=shard.num_central,
            num_halo=shard.num_halo,
            seed=seed,
            lag=self.lag,
        )
        """Which rows travel in an epoch, and what they count."""
        self._known_layouts: KnownLayouts = WeakTensorKeyDictionary()
        self._channels: dict[tuple[int, str, bool], Channel] = {}
        self._halos: dict[tuple[int, int, int], Tensor] = {}
        self._static: dict[int, Tensor] = {}
        self.adjacencies: dict[int, Adjacency] = {}
        """Matrix that each layer of a training pass used last."""

    @property
    def channels(self) -> list[Channel]:
        """The channels of training passes; evaluation has its own, which count nowhere."""
        return [channel for (_, _, exact), channel in self._channels.items() if not exact]

    def channel(self, layer: int, direction: str, *, exact: bool) -> Channel:
        """Return the channel of a layer and direction; ``exact`` ones move float32 rows."""
        key = (layer, direction, exact)
        if key not in self._channels:
            self._channels[key] = Channel(
                layer=layer,
                direction=direction,
                plan=self._plans[direction],
                codec=Float32() if exact else self._codec,
                bits=Fixed() if exact else self._bits,
                transport=self._exact_transport if exact else self._transport,
                seed=self._seed,
                run=self._run,
                phases=self.timeline,
                known=self._known_layouts,
            )
        return self._channels[key]

    def post(self, call: Call, direction: str, x: Tensor, out: Tensor | None, sampled_in: int | None) -> Pending:
        """Start moving rows of ``x``: all, or those of an epoch's sample, which are all that a halo then holds.

        Backward there is no ``out`` yet: rows are added where they land.
        """
        plan = None if sampled_in is None else self.sampling.plan(direction, sampled_in)
        pending = self.channel(call.layer, direction, exact=call.exact).post(x, out, epoch=call.epoch, plan=plan)
        self.timeline.stages.after_launch(pending.transfer.start)
        return pending

    def aggregate(
        self, adjacency: Adjacency, x: Tensor, *, layer: int, epoch: int, exact: bool, static: bool = False
    ) -> Tensor:
        """Return ``A [x; halo(x)]`` for owned rows, differentiable in ``x``.

        Args:
            adjacency: ``(N, N + H)``, central rows first.
            x: rows of owned nodes, float32 ``(N, D)``.
            layer: index of this exchange in the forward pass.
            epoch: enters the noise of the messages.
            exact: exchange float32 rows and leave no trace in the counts (evaluation).
            static: ``x`` is the same in every epoch, so its halo may be kept.

        Returns:
            float32 ``(N, D)``.
        """
        if not exact:
            self.adjacencies[layer] = adjacency
        result: Tensor = _Aggregate.apply(x, Call(self, adjacency, layer, epoch, exact, static))
        return result

    def extend(self, x: Tensor, *, layer: int, epoch: int, exact: bool) -> Tensor:
        """Return owned rows with halo rows behind them, ``(N + H, D)``, differentiable in ``x``.

        Under a sampler halo rows are those that were kept, divided by p, and zeros.

        Raises:
            ValueError: if a training pass under a schedule of older rows asks for it.
        """
        if self.lag and not exact:
            raise ValueError(
                f"extend moves the rows of this epoch, got a schedule whose rows are {self.lag} epoch(s) old; call "
                "aggregate or attend, or choose schedule Synchronous() or Overlapped()"
            )
        result: Tensor = _Extend.apply(x, Call(self, None, layer, epoch, exact, False))
        return result

    def run(self, step: Step, call: Call, direction: str) -> None:
        """Run a step by the schedule; by a synchronous one, and unseen, outside training."""
        if call.exact:
            Synchronous().run(step)
        else:
            if direction == "forward":
                self.release()
            with self.timeline.at(call.layer, direction):
                self.schedule.run(step, (call.layer, direction))

    def release(self) -> None:
        """Start moving what the schedule held back until the weight gradients are summed."""
        for step, place in self.schedule.release():
            with self.timeline.at(*place):
                step.post()

    def halo_buffer(self, layer: int, x: Tensor, place: int, sampled_in: int | None) -> Tensor:
        """Return a buffer for the halo rows of a layer, ``(H, D)``, or as many rows as an epoch's sample has.

        It is kept from epoch to epoch. With rows of two epochs and their gradients about at once, each has a ``place``
        of its own. Under a sampler whole halos, those of evaluation, are not kept: they would outweigh the others.
        """
        num_rows, columns = self.sampling.num_rows(sampled_in), x.shape[1]
        if self.sampling.active and sampled_in is None:
            return self._codec.rows(num_rows, columns, x.device)
        key = (layer, columns, place if self.lag else 0)
        if key not in self._halos or self._halos[key].shape[0] < num_rows:
            spare = num_rows // 16 if self.sampling.active else 0  # the next sample may be larger
            self._halos[key] = self._codec.rows(num_rows + spare, columns, x.device)
        return self._halos[key][:num_rows]

    @property
    def halo_bytes(self) -> int:
        """Bytes of the halo buffers that are kept from epoch to epoch, those of static rows included."""
        return sum(halo.untyped_storage().nbytes() for halo in (*self._halos.values(), *self._static.values()))

    def kept_halo(self, layer: int, x: Tensor, epoch: int) -> Tensor:
        """Return the halo rows of a static input; they travel once, in full."""
        if layer not in self._static:
            halo = x.new_empty(self.num_halo, x.shape[1])
            once = Channel(
                layer=layer,
                direction="forward",
                plan=self._plans["forward"],
                codec=Float32(),
                bits=Fixed(),
                transport=self._exact_transport,
                seed=self._seed,
                run=self._run,
                phases=self.timeline,
            )
            self._channels[layer, "once", False] = once
            once.post(x, halo, epoch=epoch).wait()
            self._static[layer] = halo
        return self._static[layer]

    @property
    def keeps_static(self) -> bool:
        return self._keep_static


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of one aggregation that are not tensors."""

    exchange: HaloExchange
    adjacency: Adjacency | None
    layer: int
    epoch: int
    exact: bool
    static: bool

    @property
    def kept(self) -> bool:
        """Whether these rows travel once in the whole run."""
        return self.static and self.exchange.keeps_static

    @property
    def sample(self) -> int | None:
        """Epoch whose sample travels; ``None``: all rows do."""
        return None if self.exact or self.kept or not self.exchange.sampling.active else self.epoch


class SumForward:
    """``y = A [x; halo]``; under a sampler the halo, and the columns of A, are those kept, which weigh 1/p as much."""

    def __init__(self, call: Call, x: Tensor) -> None:
        assert call.adjacency is not None
        self.call, self.x, self.adjacency = call, x, call.adjacency
        self.out = x.new_empty(call.exchange.num_owned, x.shape[1])
        self.came: PlacedRows
        self.sampled_in: int | None = None
        """Epoch whose sample the halo rows in use are."""

    def prepare(self) -> None:
        pass

    def post(self) -> None:
        call, exchange = self.call, self.call.exchange
        if call.kept:
            self.came = PlacedRows(exchange.kept_halo(call.layer, self.x, call.epoch))
            return
        # Outside training a buffer of another place, so that evaluation leaves rows under way alone.
        halo = exchange.halo_buffer(call.layer, self.x, 3 if call.exact else call.epoch % 2, call.sample)
        self.came = PlacedRows(halo, sampled_in=call.sample)
        self.came.pending = exchange.post(call, "forward", self.x, halo, call.sample)

    def independent(self) -> None:
        call, exchange = self.call, self.call.exchange
        central = exchange.num_central
        with exchange.timeline("central"):
            spmm(self.adjacency, self.x, rows=(0, central), out=self.out[:central])
        if call.sample is not None:
            with exchange.timeline("marginal"):
                spmm(exchange.sampling.owned(self.adjacency), self.x, out=self.out[central:])
                exchange.sampling.kept(self.adjacency, call.sample)  # made while its rows are under way

    def wait(self) -> None:
        self.take(self.came)

    def take(self, came: Came, rows: Tensor | None = None) -> None:
        self.halo, self.sampled_in = came.finish() if rows is None else rows, came.sampled_in

    def dependent(self) -> None:
        exchange = self.call.exchange
        rows = (exchange.num_central, exchange.num_owned)
        with exchange.timeline("marginal"):
            if self.sampled_in is None:
                spmm(self.adjacency, self.x, self.halo, rows=rows, out=self.out[rows[0] :])
            else:
                kept = exchange.sampling.kept(self.adjacency, self.sampled_in)
                spmm(kept, self.halo, out=self.out[rows[0] :], accumulate=True)


class SumBackward:
    """``dx = (A^T dy)[:N] + gradients that other workers computed for these rows``."""

    def __init__(self, call: Call, gradient: Tensor, sampled_in: int | None) -> None:
        assert call.adjacency is not None
        self.call, self.gradient, self.sampled_in = call, gradient, sampled_in
        self.adjacency = call.adjacency
        self.out = gradient.new_empty(call.exchange.num_owned, gradient.shape[1])
        self.came = AddedRows(self.out.shape, self.out.device)

    def prepare(self) -> None:
        exchange = self.call.exchange
        self.halo_gradient = exchange.halo_buffer(self.call.layer, self.gradient, 2, self.sampled_in)
        with exchange.timeline("marginal"):
            if self.sampled_in is None:
                rows = (exchange.num_owned, exchange.num_owned + exchange.num_halo)
                spmm(self.adjacency, self.gradient, rows=rows, transposed=True, out=self.halo_gradient)
            else:
                kept = exchange.sampling.kept(self.adjacency, self.sampled_in)
                spmm(kept, self.gradient[exchange.num_central :], transposed=True, out=self.halo_gradient)

    def post(self) -> None:
        exchange = self.call.exchange
        self.came.pending = exchange.post(self.call, "backward", self.halo_gradient, None, self.sampled_in)

    def independent(self) -> None:
        exchange = self.call.exchange
        with exchange.timeline("central"):
            spmm(self.adjacency, self.gradient, rows=(0, exchange.num_owned), transposed=True, out=self.out)

    def wait(self) -> None:
        self.take(self.came)

    def take(self, came: Came, rows: Tensor | None = None) -> None:
        assert isinstance(came, AddedRows)
        came.arrive()
        self.taken = (came, rows)

    def dependent(self) -> None:
        came, rows = self.taken
        came.add_to(self.out, rows)


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, call: Call) -> Tensor:
        step = SumForward(call, x)
        call.exchange.run(step, call, "forward")
        ctx.call, ctx.sampled_in = call, step.sampled_in
        return step.out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        step = SumBackward(ctx.call, gradients[0].contiguous(), ctx.sampled_in)
        ctx.call.exchange.run(step, ctx.call, "backward")
        return step.out, None


class _Extend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, call: Call) -> Tensor:
        ctx.call = call
        exchange = call.exchange
        out = x.new_empty(exchange.num_owned + exchange.num_halo, x.shape[1])
        halo = out[exchange.num_owned :]
        into = halo if call.sample is None else x.new_empty(exchange.sampling.num_rows(call.sample), x.shape[1])
        pending = exchange.post(call, "forward", x, into, call.sample)
        out[: exchange.num_owned] = x
        pending.wait()
        if call.sample is not None:
            halo.zero_().index_copy_(0, exchange.sampling.rows(call.sample), into.mul_(exchange.sampling.factor))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        call: Call = ctx.call
        exchange = call.exchange
        gradient = gradients[0]
        out = gradient[: exchange.num_owned].clone()
        halo = gradient[exchange.num_owned :].contiguous()
        if call.sample is not None:
            halo = halo[exchange.sampling.rows(call.sample)].mul_(exchange.sampling.factor)
        exchange.post(call, "backward", halo, out, call.sample).wait()
        return out, None
