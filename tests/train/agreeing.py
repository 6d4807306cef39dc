"""A user's own adaptive component: all workers agree on a bit-width, in a module that only its owner has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from gnnqlab.adaptive import DECISIONS, Adaptive, Sharing, State


@dataclass(frozen=True, kw_only=True)
class Agreeing:
    """Send rows in 2 bits until the sum of the ranks, each plus ``step`` an epoch, reaches ``until``; then in 8."""

    steerable: ClassVar[tuple[str, ...]] = ("step",)
    step: int = 1
    until: float = 20.0

    @property
    def choices(self):
        return (2, 8)

    def build(self, worker):
        return AgreedWidth(self, worker)

    def version(self, epoch):
        return 0

    def widths(self, rows, epoch):
        return 2


class AgreedWidth:
    """The bit-width in force on one worker."""

    def __init__(self, settings, worker):
        self.settings, self.worker, self.bits = settings, worker, 2

    def adaptives(self, training):
        return [Sum(self, training)]

    @property
    def choices(self):
        return self.settings.choices

    def version(self, epoch):
        return self.bits

    def widths(self, rows, epoch):
        return self.bits


class Sum(Adaptive):
    """Sum the values of all workers, and store each of them."""

    name = "agreed"
    reductions: Mapping[str, Sharing] = {"said": "sum", "latest": "max"}

    def __init__(self, width, training):
        self.width, self.rank = width, training.worker.rank
        self.total, self.said, self.came, self.decided = 0.0, torch.zeros(1), 0, []

    def values_to_reduce(self, epoch_s):
        term = float(self.rank + self.width.settings.step)
        self.said += term
        return {"said": term, "latest": term}

    def after_epoch(self, epoch, loss, shared):
        self.total += shared["said"]
        bits = 8 if self.total >= self.width.settings.until else 2
        if bits != self.width.bits:
            self.width.bits = bits
            why = f"{self.total:g} in all, at most {shared['latest']:g} at once"
            self.decided.append((DECISIONS, {"epoch": epoch + 1, "what": f"{bits} bits", "why": why}))

    def observe(self, arrivals):
        self.came += len(arrivals)

    def entries(self):
        decided, self.decided = self.decided, []
        return decided

    def tables(self):
        return {"said": {"so-far": self.said}}

    def notes(self):
        return {"agrees_at": self.width.settings.until}

    def state(self):
        return State({"total": self.total, "bits": self.width.bits}, own={f"said/{self.rank}": self.said})

    def load(self, facts, tensors):
        self.total, self.width.bits = facts["total"], facts["bits"]
        self.said = tensors[f"said/{self.rank}"].clone()

    def steer(self, settings, *, version):
        self.width.settings = settings
