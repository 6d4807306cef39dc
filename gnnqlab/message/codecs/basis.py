"""Bases of the rows of each exchange key: the directions that hold most of their second moment.

Letters: n rows, D columns, r directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

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

__all__ = ["VERSIONS", "Bases", "Basis", "BasisRefresh", "leading_directions", "refresh_bytes"]

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


def refresh_bytes(shapes: Iterable[tuple[int, int]], iterations: int) -> tuple[int, int]:
    """Compute the bytes of one refresh: those that every worker adds to the sums, and those that rank 0 sends to all.

    A key with a basis ``(D, r)`` has ``1 + iterations D r + r^2`` float64 numbers in the sums, and ``D r + r`` in the
    result. As for weight gradients, it is the content that counts, once per worker, not the transfers of an all-reduce;
    the list of keys, some bytes each, is left out.

    Args:
        shapes: shape ``(D, r)`` of each basis.
        iterations: number of products with the moments.

    Example:
        >>> refresh_bytes([(64, 8)], iterations=2)  # 8 * (1 + 2 * 64 * 8 + 64), 8 * (64 * 8 + 8)
        (8712, 4160)
    """
    shapes = list(shapes)
    summed = sum(1 + iterations * columns * rank + rank**2 for columns, rank in shapes)
    return 8 * summed, 8 * sum(columns * rank + rank for columns, rank in shapes)


class _Refreshed(NamedTuple):
    """Result of a refresh, the same on all workers."""

    bases: list[tuple[ExchangeKey, Basis]]
    width: int
    """Bit-width for which their ranks are large enough."""


class RefreshSettings(Protocol):
    """Settings of codec `LowRank` that a refresh reads."""

    @property
    def iterations(self) -> int: ...
    def refreshes_after(self, epoch: int) -> bool: ...
    def uses(self, basis: Basis, bits: int, columns: int) -> bool: ...


class BasisRefresh(Adaptive):
    """Callback that computes the bases of all exchange keys from each traced epoch, in common with all workers.

    One thread per worker does so during the next epoch. All workers install the bases after that epoch, however soon
    they are ready, so a training is the same in every repetition.

    Args:
        settings: the codec, `LowRank`.
        bases: bases to replace.
        policies: bit policies of the messages, for the largest rank that they may need.
        worker: context of this worker.
        phases: timer of the epoch, for the time in which training waits for bases.
    """

    needs_processes = True

    def __init__(
        self,
        settings: RefreshSettings,
        bases: Bases,
        policies: Sequence[BitPolicy],
        worker: WorkerContext,
        phases: Callable[[str], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.name, self.sent_bytes = worker.named("bases"), 0
        self._phases = phases
        # A group of its own, so that sums are never queued among the messages of training.
        self._group = dist.new_group(backend="gloo") if dist.is_initialized() else None  # threads are refused later
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bases")
        self._pending: Future[_Refreshed] | None = None
        self._settings, self._policies, self._worker = settings, policies, worker
        self.bases = bases
        """Bases of this worker."""
        self._entries: list[Entry] = []
        self._reported: dict[ExchangeKey, str] = {}

    def after_epoch(self, epoch: int, loss: float, shared: object) -> None:
        """Install the bases that were computed during this epoch; begin a refresh after a traced epoch."""
        if self._pending is not None:
            self._install()
        if not self._settings.refreshes_after(epoch):
            return
        widths = {width for policy in self._policies for width in policy.choices} & set(ERROR_WIDTHS)
        if widths:  # equal on all workers, like the settings of a policy
            # Taken here, on the training thread: the next traced epoch has other moments, and may have other bases.
            moments = {place: moment.cpu() for place, moment in self.bases.moments.items()}
            former = {place: versions[-1].directions.cpu() for place, versions in self.bases.versions.items()}
            # Traced in epoch t, computed during t + 1, used from t + 2 on.
            self._pending = self._thread.submit(partial(self._refresh, epoch + 2, max(widths), moments, former))
        self.bases.moments.clear()

    def _refresh(
        self, since: int, width: int, moments: Mapping[ExchangeKey, Tensor], former: Mapping[ExchangeKey, Tensor]
    ) -> _Refreshed:
        """Compute the bases of messages from epoch ``since`` on; all workers call it, in equal order."""
        group = self._group
        # A worker without rows to send in a layer takes part with zeros, so all workers need the shapes of all keys.
        gathered = all_gather_values([[*place, len(moment)] for place, moment in moments.items()], group=group)
        columns = {ExchangeKey(*place): count for each in gathered for *place, count in each if count}  # -> D
        if not columns:
            return _Refreshed([], width)
        places = sorted(columns)
        own, starts, has_former = list[Tensor](), list[Tensor](), list[bool]()
        for place in places:
            shape = columns[place], int(row_bytes(columns[place], width))  # (D, r)
            own.append(moments.get(place, torch.zeros(shape[0], shape[0], dtype=torch.float64)))
            # The start of the iteration is the last basis, or random directions, equal on all workers.
            has_former.append(place in former and former[place].shape == shape)
            generator = torch.Generator().manual_seed(self._worker.seed)
            random = torch.randn(*shape, dtype=torch.float64, generator=generator)
            starts.append(former[place].double() if has_former[-1] else random)
        iterations, add = self._settings.iterations, partial(dist.all_reduce, group=group)
        found = leading_directions(own, starts, iterations=iterations, add=add)
        # From rank 0 to all: sums and factors may differ in the last bit between machines, a choice of codes must not.
        tensors = [tensor for directions, _, former_shares in found for tensor in (directions, former_shares)]
        results = _summed(tensors, partial(dist.broadcast, src=0, group=group))
        bases = [
            # Nothing is known about the end of a period before there was a basis of this shape.
            (place, Basis(since, directions.float(), shares.clone() if is_known else torch.zeros_like(shares)))
            for place, directions, shares, is_known in zip(places, results[::2], results[1::2], has_former, strict=True)
        ]
        return _Refreshed(bases, width)

    def _install(self) -> None:
        assert self._pending is not None
        with self._phases("wait"):  # all workers install between the same two epochs
            bases, width = self._pending.result()
        self._pending, device = None, self._worker.device
        for place, basis in bases:
            basis = Basis(basis.since, basis.directions.to(device), basis.shares.to(device))
            self.bases.install(place, basis)
            self._report(place, basis, width)
        shapes = [(len(basis.directions), basis.rank) for _, basis in bases]
        summed, sent_by_first = refresh_bytes(shapes, self._settings.iterations)
        self.sent_bytes = (self.sent_bytes or 0) + summed + (sent_by_first if self._worker.rank == 0 else 0)

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
        """Return all bases, equal on all workers, with those of a refresh that is finished here and not installed."""
        pending = _Refreshed([], 0) if self._pending is None else self._pending.result()
        installed = [(place, basis) for place, versions in self.bases.versions.items() for basis in versions]
        tensors = {
            "/".join(map(str, (*place, basis.since, name))): tensor
            for place, basis in (*installed, *pending.bases)
            for name, tensor in (("directions", basis.directions), ("shares", basis.shares))
        }
        reported = [[*place, what] for place, what in self._reported.items()]
        facts = {"reported": reported, "pending": None if self._pending is None else pending.width}
        return State({**facts, "until": max((basis.since for _, basis in installed), default=-1)}, tensors)

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Restore the bases of a checkpoint; those of a pending refresh are installed after the next epoch."""
        pending = list[tuple[ExchangeKey, Basis]]()
        names = sorted({name.rpartition("/")[0] for name in tensors}, key=lambda name: int(name.rpartition("/")[2]))
        for name in names:  # oldest versions first
            layer, direction, round_, since = name.split("/")
            directions, shares = (
                tensors[f"{name}/{kind}"].to(self._worker.device, copy=True) for kind in ("directions", "shares")
            )
            key, basis = ExchangeKey(int(layer), direction, int(round_)), Basis(int(since), directions, shares)
            if facts.get("pending") is not None and basis.since > facts["until"]:
                pending.append((key, basis))
            else:
                self.bases.install(key, basis)
        if facts.get("pending") is not None:  # checkpoints of versions that waited for a refresh have none
            self._pending = Future()
            self._pending.set_result(_Refreshed(sorted(pending, key=lambda each: each[0]), facts["pending"]))
        self._reported = {ExchangeKey(*place): what for *place, what in facts["reported"]}

    def close(self) -> None:
        """Wait for the thread and stop it; bases that are not installed yet are dropped."""
        if self._pending is not None:
            self._pending.result()  # peers wait in its collectives, so this worker must complete its part
            self._pending = None
        self._thread.shutdown()
