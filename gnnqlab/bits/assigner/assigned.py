"""AdaQP's policy: widths assigned row by row from what encoding noted of rows, anew every period (AdaQP section 4)."""

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
from gnnqlab.bits.policy_preview import PolicyPreview, PreviewedWidths
from gnnqlab.settings import OneOf, Range, check
from gnnqlab.theory.cost import LinkCost
from gnnqlab.worker_context import WorkerContext

__all__ = ["Assigned", "AssignedWidths", "Assigner"]

_COST = ("theta_s_per_byte", "gamma_s", "r_squared", "moments")
"""The arrays of a cost model."""


@dataclass(frozen=True, kw_only=True)
class Assigned(Bits):
    """What the assigner may choose, how it weighs variance against time, and when it chooses.

    Until the first assignment every row travels in ``start`` bits.
    """

    steerable: ClassVar[tuple[str, ...]] = ("among", "lam", "group_size", "period")
    """Settings that may change while a run trains."""
    needs_every_row: ClassVar[str] = "it weighs what encoding notes of each row in one epoch"
    """Why a sampler cannot leave rows out."""
    weighs_rows: ClassVar[bool] = True
    """Its widths follow from the variance that the codec has of a row."""
    of_halo_rows: ClassVar[bool] = True
    """Its weights are those of a halo row's error in the sums of its receiver."""
    times_links: ClassVar[bool] = True
    """Messages as large as the largest of training, in ``start`` bits, are timed before the first assignment."""
    among: Widths = (2, 4, 8)
    """Widths to choose from."""
    lam: Annotated[float, Range(0, 1)] = 0.5
    """λ in [0, 1]: 1 minds only variance, 0 only time (Eq. 12)."""
    group_size: Annotated[int, Range(1, unit="row")] = 100
    """Rows that share a width."""
    period: Period = 50
    """Epochs between assignments; the first one follows epoch ``first``."""
    start: Annotated[int, OneOf(WIDTHS)] = 8
    """Width of every row before the first assignment."""
    first: Annotated[int, Range(0)] = 1
    """Epoch whose rows the first assignment weighs."""
    when: Annotated[str, OneOf(("background", "blocking"))] = "background"
    """``background``: solved beside the next epoch and applied after it; ``blocking``: training waits (the paper)."""
    as_released: bool = False
    """Weight rows with (Σα)², as the published code does, in place of Σα²."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "among", tuple(sorted(check_subset(WIDTHS, self.among))))
        check(self)

    def build(self, worker: WorkerContext) -> AssignedWidths:
        """Return the assignment in force on one worker, which adapts as the assigner says."""
        return AssignedWidths(self)

    @property
    def choices(self) -> tuple[int, ...]:
        return tuple(sorted({*self.among, self.start}))

    def round(self, epoch: int) -> int:
        return 0

    def widths(self, rows: Rows, epoch: int) -> int:
        return self.start

    def assigns_after(self, epoch: int) -> bool:
        """Whether the rows of this epoch are weighed for an assignment."""
        return epoch == self.first or (epoch > self.first and (epoch + 1) % self.period == 0)

    def foresee(self, outlook: PolicyPreview) -> PreviewedWidths:
        """Return the widths of an epoch, found as the assigner finds them from traced ranges and the link of a probe.

        By default those of the first assignment, which are in force after the epochs in ``start`` bits.
        """
        if outlook.epoch is None:
            return PreviewedWidths(widths=outlook.assign(self, self.first), epoch=self.first)
        # An assignment in the background is found beside one more epoch.
        last = outlook.epoch - (2 if self.when == "background" else 1)
        if last < self.first:
            return PreviewedWidths(widths=outlook.ask(self, outlook.epoch), epoch=outlook.epoch)
        weighed = next(epoch for epoch in range(last, -1, -1) if self.assigns_after(epoch))
        return PreviewedWidths(
            widths=outlook.assign(self, weighed),
            epoch=outlook.epoch,
            assumes=(f"the widths assigned after epoch {weighed}, from the ranges traced last before it",),
        )


class AssignedWidths(BitPolicy):
    """The assignment in force on one worker: a :class:`BitPolicy` whose answers are installed."""

    def __init__(self, settings: Assigned) -> None:
        self.settings = settings
        self.asked = False
        """Whether settings have changed, so that a new period begins: the next assignment is due at once."""
        self.version = 0
        """Version of the settings; 0: those of the launch."""
        self._table: dict[Key, Tensor] = {}
        self._installed = 0

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        """Return the assigner of this worker; alone it has nobody to send rows to."""
        named = training.worker.named
        return [Assigner.of(self, training)] if training.distributed else [_NoLinks(named("bits"), self)]

    @property
    def choices(self) -> tuple[int, ...]:
        return self.settings.choices

    def round(self, epoch: int) -> int:
        return self._installed

    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        key = (rows.layer, rows.direction, rows.sender, rows.receiver)
        return self._table.get(key, self.settings.start)

    @property
    def table(self) -> dict[Key, Tensor]:
        """The assignment in force: (layer, direction, sender, receiver) -> width of every row, uint8 ``(n,)``."""
        return dict(self._table)

    def steer(self, settings: Assigned, *, version: int = 0) -> None:
        """Change the settings, on all workers between the same two epochs; a new period begins.

        Widths in force stay until the assignment that is due now.
        """
        self.settings, self.version, self.asked = settings, version, True

    def assigns_after(self, epoch: int) -> bool:
        """Whether the ranges of this epoch are used: by the calendar, or because the settings have changed."""
        return self.asked or self.settings.assigns_after(epoch)

    def install(self, table: dict[Key, Tensor]) -> None:
        """Put an assignment in force; both ends of every message must do so between the same two epochs.

        Args:
            table: (layer, direction, sender, receiver) -> width of every row in plan order, uint8 ``(n,)``.
        """
        self._table = table
        self._installed += 1

    def reinstall(self, table: dict[Key, Tensor], installed: int) -> None:
        """Put back the assignment of an earlier training, the ``installed``-th of its own."""
        self._table, self._installed = table, installed


class _NoLinks(Follower):
    """Stands in the place of an assigner where no links are there to be timed."""

    by_seconds = True


class Assigner(Adaptive):
    """The assigner at work, while training goes on (AdaQP section 4, Fig. 6).

    After an assigning epoch a thread of each worker works the next assignment out with its peers, beside the next
    epoch. Between the same two epochs all put the widths in force.

    Args:
        widths: the assignment in force, and the settings.
        joint: works assignments out.
        training: times links before the first assignment, and is told when this worker waits for others.
    """

    by_seconds = True

    def __init__(self, widths: AssignedWidths, joint: JointAssignment, training: Training) -> None:
        self.widths = widths
        """The assignment in force."""
        self.joint = joint
        self.name = training.worker.named("assignment")
        self.history: list[dict[str, Any]] = []
        """One entry for every assignment that was put in force, until it is read."""
        self._rank, self._named = training.worker.rank, training.worker.named
        self._time_links, self._phases = training.time_links, training.phases
        # Others are seen to arrive when somebody waits for them, and computing would count as transfer.
        self._timed_by_training = training.transport == "direct" and dist.get_backend() == "gloo"
        self._transfers = Transfers()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assigner")
        self._pending: Future[tuple[dict[Key, Tensor], dict[str, Any]]] | None = None
        self._told = 0

    @classmethod
    def of(cls, widths: AssignedWidths, training: Training) -> Assigner:
        """Return the assigner of a training; every worker must make it together."""
        joint = JointAssignment(
            training.shard,
            training.part("exchange"),
            direction=training.worker.direction,
            codec=training.part("codec"),
            ring=training.transport == "ring",
        )
        return cls(widths, joint, training)

    def after_epoch(self, epoch: int, loss: float, shared: object) -> None:
        """Install what was solved beside this epoch, and start an assignment where one is due."""
        if self._pending is not None:
            self._install(epoch)
        if self.widths.assigns_after(epoch):
            self.widths.asked = False
            self._begin(epoch)
            if self.widths.settings.when == "blocking":
                self._install(epoch)

    def observe(self, arrivals: Sequence[LinkSample]) -> None:
        """Take what an epoch's messages took, to refresh the cost model with."""
        if self._timed_by_training:
            self._transfers.observe(arrivals)

    def entries(self) -> Sequence[Entry]:
        solved, self.history[:] = list(self.history), []
        return [(ASSIGNMENTS, entry) for entry in solved]

    def tables(self) -> dict[str, dict[str, Tensor]]:
        """Return the widths of the rows that this worker sends; those it receives are told by their senders."""
        if self._told == self.widths.round(0):
            return {}
        self._told = self.widths.round(0)
        table = self.widths.table.items()
        return {
            self._named("assigned"): {
                f"{key[0]}-{key[1]}-{key[3]}": rows for key, rows in table if key[2] == self._rank
            }
        }

    def state(self) -> State:
        """Return what an assigner needs to go on; an assignment that is under way is waited for."""
        pending, entry = ({}, None) if self._pending is None else self._pending.result()
        facts = {"asked": self.widths.asked, "installed": self.widths.round(0), "pending": entry}
        cost = self.joint.cost
        priced = {} if cost is None else {f"cost/{name}": torch.from_numpy(getattr(cost, name)) for name in _COST}
        own = {
            f"{table}/{'-'.join(map(str, key))}": rows
            for table, of in (("widths", self.widths.table), ("pending", pending))
            for key, rows in of.items()
            if key[2] == self._rank
        }
        return State(facts, priced, own)

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Go on as the assigner did whose state it is, with the messages of this worker."""
        tables: dict[str, dict[Key, Tensor]] = {"widths": {}, "pending": {}}
        cost = {}
        for name, tensor in tensors.items():
            kind, _, rest = name.partition("/")
            if kind == "cost":
                cost[rest] = tensor.numpy()
                continue
            layer, direction, sender, receiver = rest.split("-")
            if self._rank in (int(sender), int(receiver)):
                tables[kind][int(layer), direction, int(sender), int(receiver)] = tensor
        self.widths.reinstall(tables["widths"], facts["installed"])
        self.widths.asked = facts["asked"]
        if facts["pending"] is not None:
            self._pending = Future()
            self._pending.set_result((tables["pending"], facts["pending"]))
        if cost:
            self.joint.cost = LinkCost(**cost)

    def steer(self, settings: Assigned, *, version: int) -> None:
        self.widths.steer(settings, version=version)

    def close(self) -> None:
        """Return when nothing is under way any more; an assignment that is not in force yet is dropped."""
        if self._pending is not None:
            self._pending.result()
            self._pending = None
        self._thread.shutdown()

    def _begin(self, epoch: int) -> None:
        if self.joint.cost is None:
            with self._phases("wait"):
                self.joint.price(self._time_links(self.joint.largest_bytes(self.widths.settings.start)))
        settings, version = self.widths.settings, self.widths.version
        said = {
            "epoch": epoch,
            "version": version,
            "settings": {name: getattr(settings, name) for name in settings.steerable},
        }
        traces, witnessed = self.joint.traces(), self._transfers.take()

        def beside() -> tuple[dict[Key, Tensor], dict[str, Any]]:
            table, figures = self.joint.work_out(traces, settings, witnessed)
            return table, said | figures

        self._pending = self._thread.submit(beside)

    def _install(self, epoch: int) -> None:
        assert self._pending is not None
        with self._phases("wait"):
            table, entry = self._pending.result()
        self._pending = None
        self.widths.install(table)
        self.history.append({**entry, "from_epoch": epoch + 1})
