"""What a run has written to its folder, read back at any time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.run import folder as files
from gnnqlab.train.config.config_file import read_config, unimported

if TYPE_CHECKING:
    import pandas as pd

    from gnnqlab.train.config.run_config import RunConfig

__all__ = ["RunData"]


class RunData:
    """The tables, figures and events of a run; those of one that still trains grow from look to look.

    Args:
        folder: the run folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def id(self) -> str:
        """Name of the run, and of its folder."""
        return self.folder.name

    @property
    def config(self) -> RunConfig:
        """The configuration it was launched with, parts and all; ``settings`` has it as plain JSON.

        Raises:
            ValueError: if a part or the model comes from a module of yours that is not found here.
        """
        from gnnqlab.train.config.run_config import RunConfig

        try:
            return RunConfig.from_json(read_config(self.folder))
        except ImportError as error:
            raise ValueError(
                f"modules that run {self.id} names must be found where its parts are wanted, got {error}; put their "
                f"folder on sys.path, or read run.settings, which needs none"
            ) from error

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration as plain JSON; of modules that it names, none is imported for it.

        Raises:
            ValueError: if ``config.json`` is none of a run; the message names the file.
        """
        from gnnqlab.train.config.run_config import RunConfig

        value = read_config(self.folder)
        if unimported(value):
            return value
        try:
            return RunConfig.from_json(value).to_json()  # what an earlier version left out has its default
        except (KeyError, TypeError, ValueError):
            return value  # of another version, or with a model that only its own process knew

    @property
    def records(self) -> pd.DataFrame:
        """One row an epoch and worker; grows while the run trains."""
        from gnnqlab.train.records.record import read_records

        return read_records(self.folder)

    @property
    def traffic(self) -> pd.DataFrame:
        """One row an epoch, layer, direction, sender, receiver and bit-width; see also ``read_traffic``.

        ``tier``: ``inner`` between workers of one host, ``outer`` between hosts.
        """
        from gnnqlab.train.records.traffic import read_traffic

        return read_traffic(self.folder)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables of the run's observers, by the name of their class; each has a column ``rank``."""
        from gnnqlab.train.records.observer_tables import read_tables

        return read_tables(self.folder)

    def read_traffic(
        self, *, epochs: Iterable[int] | None = None, last: int | None = None, spread: int | None = None
    ) -> pd.DataFrame:
        """Return the rows of ``traffic`` of some epochs alone, at the cost of those epochs: the others are not read.

        Args:
            epochs: these, for instance ``range(100, 110)``; one that was not recorded has no row.
            last: so many, the newest of which all workers have written.
            spread: about so many, evenly spread.

        Raises:
            ValueError: if more than one choice of epochs is given, or a number that is not positive.

        Example:
            ``run.read_traffic(last=10).groupby("bits")["rows"].sum()``
        """
        from gnnqlab.train.records.traffic import read_traffic

        return read_traffic(self.folder, epochs=epochs, last=last, spread=spread)

    @property
    def timeline(self) -> pd.DataFrame:
        """One row a part of a layer's exchange (encode, post, central, wait, transfer ...) in the epochs recorded.

        Columns: ``epoch, layer, direction, rank, what, peer, start_s, end_s``.
        """
        from gnnqlab.train.records.timeline import read_timeline

        return read_timeline(self.folder)

    @property
    def assignments(self) -> pd.DataFrame:
        """One row an assignment of bit-widths, layer and direction: what was chosen, from when on, how surely."""
        from gnnqlab.train.records.record import read_assignments

        return read_assignments(self.folder)

    @property
    def cache(self) -> pd.DataFrame:
        """Rows sent and offered by epoch, worker, layer and direction, and the ε in force; empty without a cache."""
        from gnnqlab.train.records.cache_stats import read_cache

        return read_cache(self.folder)

    @property
    def memory(self) -> pd.DataFrame:
        """Bytes of live tensors by purpose at the peak of each epoch that was counted; launch with ``memory_every``."""
        from gnnqlab.train.records.memory_tracker import read_memory

        return read_memory(self.folder)

    @property
    def decisions(self) -> pd.DataFrame:
        """What was decided about widths, staleness and ε while the run trained: ``epoch, what, why`` (SYLVIE)."""
        from gnnqlab.train.records.record import read_decisions

        return read_decisions(self.folder)

    @property
    def links(self) -> pd.DataFrame:
        """The cost model of every pair of workers (θ, γ, R²) at each assignment."""
        from gnnqlab.train.records.record import read_links

        return read_links(self.folder)

    @property
    def summary(self) -> dict[str, Any]:
        """The figures of the run, as ``gnnqlab train --json`` prints them."""
        from gnnqlab.train.records.record import summarize

        return summarize(self.folder)

    @property
    def events(self) -> list[dict[str, Any]]:
        """What happened to the run, in order: launched, running, slow, stalled, recovered, its end."""
        try:
            lines = (self.folder / "events.jsonl").read_text().splitlines()
        except OSError:
            return []
        found = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue  # torn by a full disk
        return found

    def log(self, rank: int | None = None) -> str:
        """Output of one worker; of torchrun if no rank is given."""
        return files.tail(self.folder / "logs" / ("agent.log" if rank is None else f"rank{rank}.log"), 1 << 20)
