"""AdaQP's policy: bit-widths assigned per row from statistics of encoding, again in every period (AdaQP section 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.adaptive import ASSIGNMENTS, Adaptive, Entry, Follower, State, Training
from gnnqlab.bits.assigner.assignment import JointAssignment, Key
from gnnqlab.bits.assigner.link_samples import LinkSample, Transfers
from gnnqlab.bits.policy import WIDTHS, BitPolicy, Bits, Period, Rows, Widths, check_subset
from gnnqlab.bits.policy_prediction import PredictedWidths, PredictionContext
from gnnqlab.former_names import accepts_former_names
from gnnqlab.settings import OneOf, Range, check
from gnnqlab.theory.cost import LinkCost
from gnnqlab.worker_context import WorkerContext

__all__ = ["Assigned", "AssignedWidths", "Assigner"]

_COST = ("theta_s_per_byte", "gamma_s", "r_squared", "moments")
"""The arrays of a cost model."""


@accepts_former_names
@dataclass(frozen=True, kw_only=True)
class Assigned(Bits):
    """Settings of AdaQP's assigner: bit-widths, trade-off of variance against time, and calendar of assignments.

    Before the first assignment every row is sent in ``start`` bits.
    """

    steerable: ClassVar[tuple[str, ...]] = ("bit_widths", "lam", "group_size", "period")
    """Settings that may change while a run trains."""
    needs_every_row: ClassVar[str] = "it uses the statistics that encoding records of each row in one epoch"
    """Reason why a sampler cannot leave rows out."""
    weighs_rows: ClassVar[bool] = True
    """True: bit-widths follow from the codec's variance of each row."""
    of_halo_rows: ClassVar[bool] = True
    """True: the weight of a row is the factor of its error in the sums of its receiver, which has it in its halo."""
    times_links: ClassVar[bool] = True
    """True: messages as large as the largest of training, in ``start`` bits, are timed before the first assignment."""
    bit_widths: Widths = (2, 4, 8)
    """Bit-widths to choose from."""
    lam: Annotated[float, Range(0, 1)] = 0.5
    """λ in [0, 1]: 1 counts only variance, 0 only time (Eq. 12)."""
    group_size: Annotated[int, Range(1, unit="row")] = 100
    """Rows that share a bit-width."""
    period: Period = 50
    """Epochs between assignments; the first one follows epoch ``first``."""
    start: Annotated[int, OneOf(WIDTHS)] = 8
    """Bit-width of every row before the first assignment."""
    first: Annotated[int, Range(0)] = 1
    """Epoch whose statistics the first assignment uses."""
    when: Annotated[str, OneOf(("background", "blocking"))] = "background"
    """``background``: solved during the next epoch and applied after it; ``blocking``: training waits (the paper)."""
    as_released: bool = False
    """Weight rows with (Σα)², as the published code does, in place of Σα²."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bit_widths", tuple(sorted(check_subset(WIDTHS, self.bit_widths))))
        check(self)

    def build(self, worker: WorkerContext) -> AssignedWidths:
        """Build the policy of one worker, whose assignment the assigner replaces."""
        return AssignedWidths(self)

    @property
    def choices(self) -> tuple[int, ...]:
        return tuple(sorted({*self.bit_widths, self.start}))

    def version(self, epoch: int) -> int:
        return 0

    def widths(self, rows: Rows, epoch: int) -> int:
        return self.start

    def assigns_after(self, epoch: int) -> bool:
        """Return True if the statistics of this epoch are used for an assignment."""
        return epoch == self.first or (epoch > self.first and (epoch + 1) % self.period == 0)

    def predict(self, context: PredictionContext) -> PredictedWidths:
        """Predict the bit-widths of an epoch: solve the assigner's problem for traced ranges and the probed link.

        By default those of the first assignment, which follow the epochs in ``start`` bits.
        """
        if context.epoch is None:
            return PredictedWidths(widths=context.assign(self, self.first), epoch=self.first)
        # An assignment in the background is solved during one more epoch.
        last_epoch = context.epoch - (2 if self.when == "background" else 1)
        if last_epoch < self.first:
            return PredictedWidths(widths=context.widths_of(self, context.epoch), epoch=context.epoch)
        # The latest assigning epoch; there is one, because `first` is at most `last_epoch`.
        weighed_epoch = next(epoch for epoch in range(last_epoch, -1, -1) if self.assigns_after(epoch))
        return PredictedWidths(
            widths=context.assign(self, weighed_epoch),
            epoch=context.epoch,
            assumes=(f"the bit-widths assigned after epoch {weighed_epoch}, from the ranges traced last before it",),
        )


class AssignedWidths(BitPolicy):
    """Policy of one worker: a table of bit-widths that an assigner installs."""

    def __init__(self, settings: Assigned) -> None:
        self.settings = settings
        self.due = False
        """True if settings have changed since the last assignment: the next one is due at once."""
        self.settings_version = 0
        """Version of the settings; 0: those at launch."""
        self._table: dict[Key, Tensor] = {}
        self._installed = 0

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        """Return the assigner of this worker; a single worker sends no rows and gets a stand-in."""
        make_name = training.worker.named
        return [Assigner.from_training(self, training)] if training.distributed else [_NoLinks(make_name("bits"), self)]

    @property
    def choices(self) -> tuple[int, ...]:
        return self.settings.choices

    def version(self, epoch: int) -> int:
        return self._installed

    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        key = (rows.layer, rows.direction, rows.sender, rows.receiver)
        return self._table.get(key, self.settings.start)  # no entry before the first assignment

    @property
    def table(self) -> dict[Key, Tensor]:
        """The current assignment: (layer, direction, sender, receiver) -> bit-width of every row, uint8 ``(n,)``."""
        return dict(self._table)

    def steer(self, settings: Assigned, *, version: int = 0) -> None:
        """Replace the settings, on all workers between the same two epochs; a new period begins.

        Current bit-widths remain until the assignment that is now due.
        """
        self.settings, self.settings_version, self.due = settings, version, True

    def assigns_after(self, epoch: int) -> bool:
        """Return True if the statistics of this epoch are used: by the calendar, or after a change of settings."""
        return self.due or self.settings.assigns_after(epoch)

    def install(self, table: dict[Key, Tensor]) -> None:
        """Install an assignment; both ends of every message must do so between the same two epochs.

        Args:
            table: (layer, direction, sender, receiver) -> bit-width of every row in plan order, uint8 ``(n,)``.
        """
        self._table = table
        self._installed += 1

    def reinstall(self, table: dict[Key, Tensor], installed: int) -> None:
        """Restore the assignment of a checkpoint, the ``installed``-th of its training."""
        self._table, self._installed = table, installed


class _NoLinks(Follower):
    """Stand-in for an assigner on a single worker, which has no links to time."""

    by_seconds = True


class Assigner(Adaptive):
    """Callback that computes assignments while training continues (AdaQP section 4, Fig. 6).

    After an assigning epoch one thread per worker solves the next assignment with its peers, during the next epoch.
    All workers install the bit-widths between the same two epochs.

    Args:
        widths: the current assignment and the settings.
        joint: solves assignments.
        training: times links before the first assignment, and counts the time in which this worker waits for others.
    """

    by_seconds = True

    def __init__(self, widths: AssignedWidths, joint: JointAssignment, training: Training) -> None:
        self.widths = widths
        """The current assignment."""
        self.joint = joint
        self.name = training.worker.named("assignment")
        self.history: list[dict[str, Any]] = []
        """One entry per installed assignment that has not been read yet."""
        self._rank, self._named = training.worker.rank, training.worker.named
        self._time_links, self._phases = training.time_links, training.phases
        # Other transports and backends record an arrival only when the receiver waits for it, so that computation
        # would count as transfer time.
        self._timed_by_training = training.transport == "direct" and dist.get_backend() == "gloo"
        self._transfers = Transfers()
        # One thread: collectives of consecutive assignments keep the same order on all workers.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assigner")
        self._pending: Future[tuple[dict[Key, Tensor], dict[str, Any]]] | None = None
        self._last_written = 0

    @classmethod
    def from_training(cls, widths: AssignedWidths, training: Training) -> Assigner:
        """Create the assigner of a training; a collective call: it creates a process group on all workers."""
        assignment = JointAssignment(
            training.shard,
            training.part("exchange"),
            direction=training.worker.direction,
            codec=training.part("codec"),
            ring=training.transport == "ring",
        )
        return cls(widths, assignment, training)

    def after_epoch(self, epoch: int, loss: float, shared: object) -> None:
        """Install the assignment that was solved during this epoch, and start one if it is due."""
        if self._pending is not None:
            self._install(epoch)
        # After the installation above, so that at most one assignment is pending.
        if self.widths.assigns_after(epoch):
            self.widths.due = False
            self._begin(epoch)
            if self.widths.settings.when == "blocking":
                self._install(epoch)

    def observe(self, arrivals: Sequence[LinkSample]) -> None:
        """Record the transfer times of an epoch's messages, to refresh the cost model."""
        if self._timed_by_training:
            self._transfers.observe(arrivals)

    def entries(self) -> Sequence[Entry]:
        unread_entries, self.history[:] = list(self.history), []
        return [(ASSIGNMENTS, entry) for entry in unread_entries]

    def tables(self) -> dict[str, dict[str, Tensor]]:
        """Return the bit-widths of the rows that this worker sends; their senders write those of received rows."""
        if self._last_written == self.widths.version(0):
            return {}
        self._last_written = self.widths.version(0)
        table = self.widths.table.items()
        return {
            self._named("assigned"): {
                f"{key[0]}-{key[1]}-{key[3]}": rows for key, rows in table if key[2] == self._rank
            }
        }

    def state(self) -> State:
        """Return the state for a checkpoint, after an assignment in progress has finished."""
        pending_table, entry = ({}, None) if self._pending is None else self._pending.result()
        facts = {"asked": self.widths.due, "installed": self.widths.version(0), "pending": entry}
        cost = self.joint.cost
        cost_tensors = {} if cost is None else {f"cost/{name}": torch.from_numpy(getattr(cost, name)) for name in _COST}
        # Only the sender of a message saves its bit-widths; its receiver restores them from there.
        own_tensors = {
            f"{kind}/{'-'.join(map(str, key))}": rows
            for kind, table in (("widths", self.widths.table), ("pending", pending_table))
            for key, rows in table.items()
            if key[2] == self._rank
        }
        return State(facts, cost_tensors, own_tensors)

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Restore a checkpoint: cost model, pending assignment, and bit-widths of this worker's messages."""
        tables: dict[str, dict[Key, Tensor]] = {"widths": {}, "pending": {}}
        cost = {}
        for name, tensor in tensors.items():
            kind, _, suffix = name.partition("/")
            if kind == "cost":
                cost[suffix] = tensor.numpy()
                continue
            layer, direction, sender, receiver = suffix.split("-")
            if self._rank in (int(sender), int(receiver)):  # both ends decode by the same bit-widths
                tables[kind][int(layer), direction, int(sender), int(receiver)] = tensor
        self.widths.reinstall(tables["widths"], facts["installed"])
        self.widths.due = facts["asked"]
        if facts["pending"] is not None:
            # A future with a result: the next epoch installs it like one of the thread.
            self._pending = Future()
            self._pending.set_result((tables["pending"], facts["pending"]))
        if cost:
            self.joint.cost = LinkCost(**cost)

    def steer(self, settings: Assigned, *, version: int) -> None:
        self.widths.steer(settings, version=version)

    def close(self) -> None:
        """Wait for the thread and stop it; an assignment that is not installed yet is dropped."""
        if self._pending is not None:
            # Peers wait in collectives of this assignment, so the thread must complete its part.
            self._pending.result()
            self._pending = None
        self._thread.shutdown()

    def _begin(self, epoch: int) -> None:
        # Links are timed once; later assignments refresh the model with transfers of training.
        if self.joint.cost is None:
            with self._phases("wait"):
                self.joint.price(self._time_links(self.joint.largest_bytes(self.widths.settings.start)))
        settings, version = self.widths.settings, self.widths.settings_version
        header = {
            "epoch": epoch,
            "version": version,
            "settings": {name: getattr(settings, name) for name in settings.steerable},
        }
        # Taken here, on the training thread: the next epoch replaces the statistics while the assigner runs.
        traces, transfers = self.joint.traces(), self._transfers.take()

        def solve_in_background() -> tuple[dict[Key, Tensor], dict[str, Any]]:
            table, figures = self.joint.work_out(traces, settings, transfers)
            return table, header | figures

        self._pending = self._thread.submit(solve_in_background)

    def _install(self, epoch: int) -> None:
        assert self._pending is not None
        # Every worker blocks here between the same two epochs, so sender and receiver switch bit-widths together.
        with self._phases("wait"):
            table, entry = self._pending.result()
        self._pending = None
        self.widths.install(table)
        self.history.append({**entry, "from_epoch": epoch + 1})
