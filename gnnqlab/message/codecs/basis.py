"""Bases of the rows of each exchange key: the directions that hold most of their second moment.

Letters: n rows, D columns, r directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.adaptive import DECISIONS, Adaptive, Entry, State
from gnnqlab.bits.policy import BitPolicy
from gnnqlab.kernels.codec.row_errors import ERROR_WIDTHS
from gnnqlab.kernels.codec.rows import row_bytes
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.plain_values import all_gather_values
from gnnqlab.worker_context import WorkerContext

__all__ = ["VERSIONS", "Bases", "Basis", "BasisRefresh", "leading_directions"]

VERSIONS = 2
"""Versions of a basis that are stored: with stale rows a message is decoded one epoch after it was encoded."""


@dataclass(frozen=True, eq=False)
class Basis:
    """Leading directions of the rows of an exchange key.

    Example:
        >>> basis = Basis(0, torch.eye(4)[:, :2], torch.tensor([0.75, 0.125]))
        >>> basis.rank, basis.lost_share(1), basis.lost_share(2)
        (2, 0.25, 0.125)
    """

    since: int
    """First epoch whose messages use it."""
    directions: Tensor
    """U, float32 ``(D, r)``: orthonormal columns, those with the largest share first."""
    shares: Tensor
    """Share of the rows' squared norm along each direction of the *former* basis, in the epoch from whose rows this one
    follows, ``(r,)``: what a basis holds at the end of its period. Zeros if there was none."""

    @property
    def rank(self) -> int:
        """Number of directions, r."""
        return self.directions.shape[1]

    @cached_property
    def _captured(self) -> list[float]:
        captured: list[float] = self.shares.double().cumsum(0).tolist()
        return captured

    def lost_share(self, rank: int) -> float:
        """Return the share of the rows' squared norm outside the first ``rank`` directions at the end of a period."""
        return max(0.0, 1.0 - self._captured[rank - 1])


class Bases:
    """Bases of all exchange keys of one worker, and second moments of the rows that it encodes in a traced epoch."""

    def __init__(self) -> None:
        self.versions: dict[ExchangeKey, tuple[Basis, ...]] = {}
        """Exchange key -> the last versions of its basis, the newest last."""
        self.moments: dict[ExchangeKey, Tensor] = {}
        """Exchange key -> ``X^T X`` of the rows encoded in this epoch, float64 ``(D, D)``."""

    def basis_for(self, place: ExchangeKey, epoch: int) -> Basis | None:
        """Return the basis of the messages of an epoch; ``None`` before the first one."""
        return next((basis for basis in reversed(self.versions.get(place, ())) if basis.since <= epoch), None)

    def trace(self, place: ExchangeKey, rows: Tensor) -> None:
        """Add the second moment of rows ``(n, D)`` to that of their key."""
        rows = rows.double()
        moment = rows.T @ rows  # (D, n) @ (n, D)
        if place in self.moments:
            moment += self.moments[place]
        self.moments[place] = moment

    def install(self, place: ExchangeKey, basis: Basis) -> None:
        """Add a version of a key's basis; the oldest is dropped."""
        self.versions[place] = (*self.versions.get(place, ()), basis)[-VERSIONS:]


def leading_directions(
    moments: Sequence[Tensor],
    starts: Sequence[Tensor],
    *,
    iterations: int,
    add: Callable[[Tensor], object] = lambda flat: None,
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Compute the leading eigenvectors of sums of second moments by orthogonal iteration.

    ``Q <- qr(sum_p M_p Q)``, then the eigenvectors of ``Q^T M Q`` rotate Q, so that the first r' of its directions are
    the best ones for each r' < r. Only ``(D, r)`` and ``(r, r)`` are summed over workers, never ``(D, D)``.

    Args:
        moments: ``M_p = X^T X`` of this worker's rows, float64 ``(D, D)``, one per exchange key.
        starts: start of each iteration, float64 ``(D, r)``, identical on all workers.
        iterations: number of products with the moments.
        add: sums a flat tensor over workers in place; by default there is one worker.

    Returns:
        For each key directions, float64 ``(D, r)``; their shares of the squared norm, falling, and those of the columns
        of the start, if it is orthonormal, float64 ``(r,)``. Shares are 0 where all rows are 0.

    Example:
        >>> rows = torch.tensor([[3.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).double()
        >>> start = torch.ones(3, 1).double()
        >>> ((directions, shares, _),) = leading_directions([rows.T @ rows], [start], iterations=8)
        >>> [round(abs(each), 3) for each in directions[:, 0].tolist()], round(shares.item(), 3)
        ([1.0, 0.0, 0.0], 0.9)
    """
    norms = _summed([moment.diagonal().sum()[None] for moment in moments], add)  # squared norms of all rows
    # Divided by the norm, because squared gradients of a long training underflow.
    moments = [moment / norm if norm > 0 else moment for moment, norm in zip(moments, norms, strict=True)]
    subspaces, start_shares = list(starts), list[Tensor]()
    for _ in range(iterations):
        products = _summed([moment @ subspace for moment, subspace in zip(moments, subspaces, strict=True)], add)
        # q^T M q of each column of the start, which the first product contains.
        start_shares = start_shares or [(q * product).sum(0) for q, product in zip(starts, products, strict=True)]
        subspaces = [torch.linalg.qr(product).Q for product in products]  # (D, r)
    projected = _summed([q.T @ moment @ q for q, moment in zip(subspaces, moments, strict=True)], add)  # (r, r)
    found = []
    for subspace, moment, former_shares in zip(subspaces, projected, start_shares, strict=True):
        values, vectors = torch.linalg.eigh(moment)  # ascending
        found.append((subspace @ vectors.flip(1), values.flip(0).clamp(0, 1), former_shares.clamp(0, 1)))
    return found


def _summed(tensors: Sequence[Tensor], add: Callable[[Tensor], object]) -> list[Tensor]:
    """Sum tensors over workers in one transfer."""
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    add(flat)
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


class RefreshSettings(Protocol):
    """Settings of codec `LowRank` that a refresh reads."""

    @property
    def iterations(self) -> int: ...
    def refreshes_after(self, epoch: int) -> bool: ...
    def uses(self, basis: Basis, bits: int, columns: int) -> bool: ...


class BasisRefresh(Adaptive):
    """Callback that computes the bases of all exchange keys after each traced epoch, in common with all workers.

    Args:
        settings: the codec, `LowRank`.
        bases: bases to replace.
        policies: bit policies of the messages, for the largest rank that they may need.
        worker: context of this worker.
    """

    needs_processes = True

    def __init__(
        self, settings: RefreshSettings, bases: Bases, policies: Sequence[BitPolicy], worker: WorkerContext
    ) -> None:
        self.name = worker.named("bases")
        self._settings, self._policies, self._worker = settings, policies, worker
        self.bases = bases
        """Bases of this worker."""
        self._entries: list[Entry] = []
        self._reported: dict[ExchangeKey, str] = {}

    def after_epoch(self, epoch: int, loss: float, shared: object) -> None:
        """Compute and install the bases for the next epochs, after a traced epoch."""
        if not self._settings.refreshes_after(epoch):
            return
        widths = {width for policy in self._policies for width in policy.choices} & set(ERROR_WIDTHS)
        if widths:  # equal on all workers, like the settings of a policy
            self._refresh(epoch, max(widths))
        self.bases.moments.clear()

    def _refresh(self, epoch: int, width: int) -> None:
        # A worker without rows to send in a layer takes part with zeros, so all workers need the shapes of all keys.
        columns = all_gather_values([[*place, len(moment)] for place, moment in self.bases.moments.items()])
        of_place = {ExchangeKey(*place): count for each in columns for *place, count in each if count}  # -> D
        if not of_place:
            return
        places = sorted(of_place)
        moments = [self._moment(place, of_place[place]) for place in places]
        shapes = [(of_place[place], int(row_bytes(of_place[place], width))) for place in places]  # (D, r)
        starts = [self._start(place, shape) for place, shape in zip(places, shapes, strict=True)]
        found = leading_directions(moments, starts, iterations=self._settings.iterations, add=dist.all_reduce)
        # From rank 0 to all: sums and factors may differ in the last bit between machines, a choice of codes must not.
        results = _summed([tensor for each in found for tensor in each], lambda flat: dist.broadcast(flat, 0))
        for place, directions, former_shares in zip(places, results[::3], results[2::3], strict=True):
            # Nothing is known about the end of a period before there was a basis of this shape.
            shares = former_shares if self._former(place, directions.shape) else torch.zeros_like(former_shares)
            basis = Basis(epoch + 1, directions.float(), shares.clone())
            self.bases.install(place, basis)
            self._report(place, basis, width)

    def _moment(self, place: ExchangeKey, columns: int) -> Tensor:
        moment = self.bases.moments.get(place)
        if moment is None:
            return torch.zeros(columns, columns, dtype=torch.float64, device=self._worker.device)
        return moment

    def _start(self, place: ExchangeKey, shape: tuple[int, int]) -> Tensor:
        """Return the start of the iteration: the last basis, or random directions, equal on all workers."""
        former = self._former(place, shape)
        if former is not None:
            return former.directions.double()
        generator = torch.Generator().manual_seed(self._worker.seed)
        return torch.randn(*shape, dtype=torch.float64, generator=generator).to(self._worker.device)

    def _former(self, place: ExchangeKey, shape: tuple[int, ...]) -> Basis | None:
        """Return the newest basis of a key, if it has this shape."""
        versions = self.bases.versions.get(place, ())
        return versions[-1] if versions and versions[-1].directions.shape == shape else None

    def _report(self, place: ExchangeKey, basis: Basis, width: int) -> None:
        """Note a decision where the code of a key changes."""
        uses = self._settings.uses(basis, width, len(basis.directions))
        what = f"{place.direction} {place.layer}.{place.round}: {'basis' if uses else 'no basis'} at {width} bit"
        if self._reported.get(place) != what:
            self._reported[place] = what
            why = (
                f"{basis.lost_share(basis.rank):.3g} of the squared norm is outside the former {basis.rank} directions"
            )
            self._entries.append((DECISIONS, {"epoch": basis.since, "what": what, "why": why}))

    def entries(self) -> Sequence[Entry]:
        entries, self._entries = self._entries, []
        return entries

    def state(self) -> State:
        """Return all bases, which are equal on all workers."""
        tensors = {
            "/".join(map(str, (*place, basis.since, name))): tensor
            for place, versions in self.bases.versions.items()
            for basis in versions
            for name, tensor in (("directions", basis.directions), ("shares", basis.shares))
        }
        return State({"reported": [[*place, what] for place, what in self._reported.items()]}, tensors)

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Restore the bases of a checkpoint."""
        names = sorted({name.rpartition("/")[0] for name in tensors}, key=lambda name: int(name.rpartition("/")[2]))
        for name in names:  # oldest versions first
            layer, direction, round_, since = name.split("/")
            directions, shares = (
                tensors[f"{name}/{kind}"].to(self._worker.device, copy=True) for kind in ("directions", "shares")
            )
            self.bases.install(ExchangeKey(int(layer), direction, int(round_)), Basis(int(since), directions, shares))
        self._reported = {ExchangeKey(*place): what for *place, what in facts["reported"]}
