"""What a critical path is made of: its links, in numbers, in words and drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.training.critical_view import WORDS, draw_path

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.lab.figures.bundle import Bundle

__all__ = ["CriticalPath"]


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """The longest chain through one epoch, in the order of time; at the end of a cell it shows its figure."""

    epoch: int
    segments: DataFrame
    """A row a link: ``worker, what, layer, direction, sender, start (ms), end (ms), ms``; without a sender it is -1."""
    workers: DataFrame
    """What each worker's messages cost it, see `exposed_table`."""
    timeline: DataFrame
    """The epoch's rows of ``run.timeline``."""

    @property
    def milliseconds(self) -> float:
        """Length of the chain, from its first begin to the end of the last recorded part."""
        return float(self.segments["ms"].sum())

    def by_phase(self) -> DataFrame:
        """Return milliseconds of the chain by worker (rows; a message counts where it arrives) and phase (columns)."""
        table = self.segments.pivot_table(index="worker", columns="what", values="ms", aggfunc="sum", fill_value=0.0)
        table.columns.name = None
        return table

    @property
    def words(self) -> str:
        """What the chain is made of, and what communication was exposed and hidden, in sentences."""
        of = self.segments.groupby("what")["ms"].sum().sort_values(ascending=False)
        parts = ", ".join(f"{WORDS.get(str(what), what)} {ms:.3g} ms" for what, ms in of.items())
        hops = int((self.segments["sender"] >= 0).sum())
        exposed = " ".join(
            f"{name}: messages under way {row['under way']:.3g} ms, {row['exposed']:.3g} ms of them exposed "
            f"(it waited), {row['hidden']:.3g} ms hidden behind its own work."
            for name, row in self.workers.iterrows()
        )
        return (
            f"The critical path of epoch {self.epoch} takes {self.milliseconds:.3g} ms and passes from worker to "
            f"worker {hops} time{'' if hops == 1 else 's'}: {parts}. {exposed}"
        )

    def draw(self, *, dark: bool = False) -> Bundle:
        """Draw the chain over what all workers did."""
        return draw_path(self.segments, self.timeline, epoch=self.epoch, words=self.words, dark=dark)

    def __repr__(self) -> str:
        return self.words

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return self.draw()._repr_mimebundle_()
