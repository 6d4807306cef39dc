"""Prediction of a system: bit-widths of its policy, bytes of its layouts, and the exposed time by its schedule.

Every part of the system predicts its own effect (methods ``predict``, ``expected_share``, ``exposed_seconds``,
``layout``, ``sampled_positions``), so that a user's own part is predicted like any other. For a part without these
methods an error names the missing one.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gnnqlab.bits.policy_prediction import Place, PredictedWidths, Widths
from gnnqlab.bits.row import EXACT
from gnnqlab.exchange.schedules.schedule import Schedule
from gnnqlab.message.direction import of_direction
from gnnqlab.systems.system import System
from gnnqlab.systems.unbiased import biased
from gnnqlab.theory.cost import LinkCost
from gnnqlab.theory.variance import AVERAGE
from gnnqlab.tune.coding_cost import coding_ratios
from gnnqlab.tune.forecast import Forecast
from gnnqlab.tune.offline_assigner import OfflineAssigner
from gnnqlab.tune.timing import EpochTime, Timing
from gnnqlab.tune.trace_prediction import TracePredictionContext
from gnnqlab.tune.traced import Trace, untraced_reason
from gnnqlab.tune.volume import Volume, volume
from gnnqlab.tune.wire import Wire

__all__ = ["Prediction", "predict_widths"]

_ON_THE_LINK = "reduce"
"""Phase whose bytes use the same links as rows."""


def predict_widths(
    assigner: OfflineAssigner, wire: Wire, system: System, *, epoch: int | None = None, base: int | None = None
) -> PredictedWidths:
    """Predict the bit-widths of a system's policy.

    Args:
        assigner: assigns bit-widths to the messages of a trace, without a training.
        wire: the link.
        system: with the policy.
        epoch: epoch to predict; ``None``: one that the policy considers typical, such as its first assignment.
        base: base bit-width to assume; ``None``: that to which the traced losses have moved it.

    Raises:
        ValueError: if the policy cannot be predicted, or has no base.
    """
    context = TracePredictionContext(
        assigner=assigner.with_codec(system.codec),
        cost=_cost(wire, assigner.trace.row_weight),
        transport=wire.transport,
        epoch=epoch,
        base=base,
    )
    parts = [of_direction(system.bits, direction) for direction in ("forward", "backward")]
    answers = [part.predict(context) for part in dict.fromkeys(parts)]  # one, if both directions share a policy
    predicted_widths = _join(answers[0], answers[-1])
    if base is not None and predicted_widths.base is None:
        raise ValueError(
            f"base is for policies that move a base, got {base} for {type(system.bits).__name__}; leave it out"
        )
    return predicted_widths


def _cost(wire: Wire, row_weight: float) -> LinkCost:
    """Return θ and γ of every pair for traced rows, each of which stands for ``row_weight`` rows."""
    cost = wire.cost()
    return cost if row_weight == 1.0 else replace(cost, theta_s_per_byte=row_weight * cost.theta_s_per_byte)


def _join(forward: PredictedWidths, backward: PredictedWidths) -> PredictedWidths:
    """Combine the predictions of two policies, one for embeddings and one for gradients."""
    if forward is backward:
        return forward
    by_direction = {"forward": forward, "backward": backward}
    return PredictedWidths(
        widths={place: by_direction[place[1]].widths[place] for place in forward.widths},
        epoch=max(forward.epoch, backward.epoch),
        base=forward.base if backward.base is None else backward.base,
        assumes=tuple(
            dict.fromkeys(f"{name}: {text}" for name, prediction in by_direction.items() for text in prediction.assumes)
        ),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """Prediction of one system from a trace, a timing and a link."""

    assigner: OfflineAssigner
    timing: Timing
    wire: Wire
    system: System
    epoch: int | None
    """Predicted epoch; ``None``: one that the policy considers typical."""
    base: int | None
    """Base bit-width to assume; ``None``: that to which the traced losses have moved it."""

    @cached_property
    def predicted_widths(self) -> PredictedWidths:
        return predict_widths(self.assigner, self.wire, self.system, epoch=self.epoch, base=self.base)

    @cached_property
    def volume(self) -> Volume:
        return volume(self.assigner, self.system, self.predicted_widths.widths, self.epoch, hosts=self.wire.hosts)

    def with_link(self, timing: Timing, wire: Wire) -> Prediction:
        """Return the prediction over another link, with the same bit-widths and messages.

        Args:
            timing: for the other link, see `Timing.with_rate`.
            wire: the other link.
        """
        other = replace(self, timing=timing, wire=wire)
        other.__dict__.update(predicted_widths=self.predicted_widths, volume=self.volume)  # cached properties
        return other

    @cached_property
    def wire_of_rows(self) -> Wire:
        """The link with the waiting of this system's rows, between that of quantized and of float32 rows."""
        waiting_s = self.wire.gamma_s + self.volume.exact * self.timing.exact_waiting_s
        return replace(self.wire, gamma_s=max(0.0, waiting_s))

    @cached_property
    def wire_s(self) -> dict[Place, float]:
        """Seconds of the transfers of each layer and direction, summed over rounds."""
        rounds, wire = self.volume.rounds, self.wire_of_rows
        return {place: sum(wire.exchange_s(amount) for amount in rounds[place].values()) for place in rounds}

    @cached_property
    def tiers(self) -> dict[str, tuple[float, float]]:
        """Bytes and seconds of an epoch within a host (``inner``) and between hosts (``outer``)."""
        wire = self.wire_of_rows
        exchanges = [wire.by_tier(amount) for rounds in self.volume.rounds.values() for amount in rounds.values()]
        return {
            tier: (sum(exchange[tier][0] for exchange in exchanges), sum(exchange[tier][1] for exchange in exchanges))
            for tier in ("inner", "outer")
        }

    @cached_property
    def schedule(self) -> Schedule:
        """Schedule of the system, with its decisions about the traced losses if it decides by them."""
        policies = (of_direction(self.system.bits, direction) for direction in ("forward", "backward"))
        rule = next((policy.descent_rule for policy in policies if policy.descent_rule is not None), None)
        computation_s = sum(self._computation.values())
        return self.system.schedule.with_decisions(
            self.assigner.trace.losses, rule, lambda schedule: computation_s + self._exposed(schedule)
        )

    @cached_property
    def phases(self) -> dict[str, float]:
        """Seconds of an epoch by phase; ``wire`` is the exposed part of the transfers."""
        return {**self._computation, "wire": self._exposed(self.schedule)}

    @cached_property
    def _computation(self) -> dict[str, float]:
        """Seconds of an epoch by phase, except those of the transfers."""
        # Computation, measured with float32 rows and with quantized ones, weighted by the elements sent as either.
        phases = _interpolate(self.timing.quantized, self.timing.exact, self.volume.exact)
        if self.volume.exact < 1.0:
            for name, ratio in zip(("encode", "decode"), self._coding_ratios(), strict=True):
                phases[name] = ratio * phases.get(name, 0.0)
        # Rows that a sampler or a cache skips are neither encoded nor decoded, and fewer edges need them.
        if self.volume.share != 1.0:
            sent_share, marginal_share = self.volume.share, _marginal_share(self.assigner.trace, self.volume.share)
            for name, share in (("encode", sent_share), ("decode", sent_share), ("marginal", marginal_share)):
                phases[name] = share * phases.get(name, 0.0)
        if self.wire.theta_s_per_byte != self.timing.wire.theta_s_per_byte:
            # The all-reduce of gradients uses the same links.
            extra_theta = self.wire.theta_s_per_byte - self.timing.wire.theta_s_per_byte
            link_s = phases[_ON_THE_LINK] + extra_theta * self.wire.reduce_bytes(self.timing.gradient_bytes)
            phases[_ON_THE_LINK] = max(0.0, link_s)
        return phases

    def _coding_ratios(self) -> tuple[float, float]:
        """Return the time of encoding and of decoding relative to the probe's codec, weighted by elements."""
        encode = decode = elements = 0.0
        for place, parts in self.predicted_widths.widths.items():
            first_message = self.assigner.messages(place)[0]
            counts = [part.bincount(minlength=EXACT + 1) for part in parts]  # (33,) by bit-width
            rows = torch.stack(counts).sum(0)[:EXACT]  # (32,), quantized rows only
            if first_message.exact or not (num_rows := int(rows.sum())):
                continue
            codec, columns = of_direction(self.system.codec, place[1]), first_message.columns
            ratios = coding_ratios(codec, int(rows.argmax()), columns)  # of the most frequent bit-width
            weight = float(num_rows * columns)
            encode, decode = encode + weight * ratios[0], decode + weight * ratios[1]
            elements += weight
        return (encode / elements, decode / elements) if elements else (1.0, 1.0)

    def _exposed(self, schedule: Schedule) -> float:
        """Return the seconds of the transfers that a schedule does not hide."""
        phases = self._computation
        # Overlap hides the exchange of a layer behind its central work (sums that need no remote rows), so the phase is
        # split by layer.
        work = _central_work(self.assigner.trace)
        total_work = sum(work.values()) or 1.0
        central_s = [phases.get("central", 0.0) * work[place] / total_work for place in self.wire_s]
        computing_s = sum(seconds for name, seconds in phases.items() if name != _ON_THE_LINK)
        return schedule.exposed_seconds(list(self.wire_s.values()), central_s, computing_s)

    def forecast(self, vanilla_s: float | None, error: float | None) -> Forecast:
        """Return the complete forecast.

        Args:
            vanilla_s: seconds of an epoch of Vanilla, the float32 baseline; ``None``: this is Vanilla.
            error: median relative error of earlier predictions, compared with finished runs.
        """
        bits: Any = self.system.bits
        settings = {field.name: getattr(bits, field.name) for field in dataclasses.fields(bits)}
        sent_volume, prediction = self.volume, self.predicted_widths
        assigner, bias_reason = self.assigner.with_codec(self.system.codec), biased(self.system)
        missing_ranges = _missing_ranges(assigner, prediction.widths)
        has_bounds = not bias_reason and not missing_ranges  # then Theorems 1 and 3 of AdaQP apply
        bounds, share = _bounds(assigner, prediction.widths) if has_bounds else ({}, None)
        variances = assigner.variance(prediction.widths, assigner.trace.index(prediction.epoch)) if has_bounds else {}
        assumptions = [text for text in (self.schedule.assumes,) if text]
        if self.timing.is_loaded and self.volume.exact < 1:
            assumptions.append("messages no slower than float32 rows, although other load slowed the probe of codes")
        if sent_volume.shared:
            assumptions.append("no seconds for bases, which are refreshed during an epoch")
        payload, params = round(sent_volume.payload_bytes), round(sent_volume.param_bytes)
        return Forecast(
            system=self.system.name,
            recipe=self.system,
            epoch=self.epoch,
            base=prediction.base,
            lam=settings.get("lam"),
            group_size=settings.get("group_size"),
            bit_widths=settings.get("bit_widths"),
            period=settings.get("period"),
            phases=self.phases,
            wire_s=sum(self.wire_s.values()),
            vanilla_s=sum(self.phases.values()) if vanilla_s is None else vanilla_s,
            bytes_payload=payload,
            bytes_params=params,
            bytes_bases=round(sent_volume.shared),
            variances=variances,
            biased=bias_reason,
            untraced_reason=missing_ranges,
            bounds=bounds,
            noise_share=share,
            rows={width: round(count) for width, count in sent_volume.rows.items()},
            tiers=self.tiers,
            pair_bits=_pair_bits(self.assigner, prediction.widths),
            link=self.wire.name,
            error=error,
            assumes=(*prediction.assumes, *sent_volume.assumes, *assumptions),
        )


def _interpolate(rounded_time: EpochTime, exact_time: EpochTime, share: float) -> dict[str, float]:
    """Interpolate the phases of an epoch in which a share of the elements is sent as float32."""
    if share in (0.0, 1.0):
        return dict(exact_time.phases if share else rounded_time.phases)
    # Linear: coding takes time per element, and all other phases are about equal in both runs.
    return {
        name: share * exact_time.phases[name] + (1 - share) * rounded_time.phases[name] for name in rounded_time.phases
    }


def _central_work(trace: Trace) -> dict[Place, float]:
    """Return the number of multiplications that need no remote rows, for every (layer, direction)."""
    work = {}
    for place in trace.places:
        columns = trace.messages_at(place)[0].columns
        work[place] = float(trace.independent_edges[place[1]] * columns)
    return work


def _marginal_share(trace: Trace, share: float) -> float:
    """Return the share of work on marginal rows and halo gradients that remains if a share of the rows is sent."""
    work_left = total_work = 0.0
    for layer, direction in trace.places:
        columns = trace.messages_at((layer, direction))[0].columns
        for shard, remote_edges in zip(trace.shards, trace.edges_of_copies, strict=True):
            edges = shard.num_edges - int(shard.indptr[shard.num_central]) if direction == "forward" else remote_edges
            total_work += columns * edges
            work_left += columns * (edges - (1 - share) * remote_edges)  # a skipped row saves the edges from its copy
    return work_left / total_work if total_work else 1.0


def _missing_ranges(assigner: OfflineAssigner, widths: Widths) -> str:
    """Return the reason why a trace lacks the ranges for the variance of rows; float32 rows have no variance."""
    for place, parts in widths.items():
        if any(bool((rows != EXACT).any()) for rows in parts):
            reason = untraced_reason(assigner.variance_of(place[1], assigner.messages(place)[0].columns).spreads)
            if reason:
                return reason
    return ""


def _bounds(assigner: OfflineAssigner, widths: Widths) -> tuple[dict[str, float], float | None]:
    """Return Theorem 3's bounds at the last traced epoch, and their sum relative to the squared gradient."""
    trace, theorem = assigner.trace, assigner.trace.theorem
    if theorem is None:
        return {}, None
    # Messages concatenated by sender and receiver, as in `traced.Reach`: (n,) each -> (rows,).
    joined_widths = {place: torch.cat([rows.long() for rows in parts]) for place, parts in widths.items()}
    noise = trace.noise(joined_widths, len(trace.epochs) - 1, assigner.variance_of)
    bounds = {f"{term.layer}.{term.name}": term.bound(noise, AVERAGE).total for term in theorem.terms}
    squared_gradient = theorem.squared_gradient
    return bounds, sum(bounds.values()) / squared_gradient if squared_gradient > 0 else None


def _pair_bits(assigner: OfflineAssigner, widths: Widths) -> NDArray[np.float64]:
    workers = assigner.trace.workers
    # Bits of all elements and their number, from sender to receiver, (P, P).
    bits, elements = np.zeros((workers, workers)), np.zeros((workers, workers))
    for place, parts in widths.items():
        for message, rows in zip(assigner.messages(place), parts, strict=True):
            bits[message.sender, message.receiver] += float(rows.double().sum()) * message.columns
            elements[message.sender, message.receiver] += message.num_rows * message.columns
    return np.divide(bits, elements, out=np.full_like(bits, np.nan), where=elements > 0)
