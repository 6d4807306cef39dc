"""Data of a run, read from its folder at any time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.run import folder as files
from gnnqlab.run.annotation import Annotation, read_annotation
from gnnqlab.run.summary import Summary
from gnnqlab.train.config.config_file import find_unimported_modules, read_config
from gnnqlab.train.heartbeat import read_warning

if TYPE_CHECKING:
    import pandas as pd

    from gnnqlab.run.machine_links import MachineLinks
    from gnnqlab.train.config.run_config import RunConfig

__all__ = ["RunData"]


class RunData:
    """Tables, figures and events of a run; while it trains, every access returns the data written so far.

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
    def name(self) -> str:
        """Name that the user gave the run; empty without one."""
        return read_annotation(self.folder).name

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags that the user gave the run; ``gq.runs(tag=...)`` lists the runs with a tag."""
        return tuple(read_annotation(self.folder).tags)

    @property
    def note(self) -> str:
        """Note of the user about the run."""
        return read_annotation(self.folder).note

    def annotate(self, *, name: str | None = None, tags: Sequence[str] | None = None, note: str | None = None) -> None:
        """Change name, tags or note of the run, also after its end; its results do not depend on them.

        Args:
            name: a short text for lists of runs; ``""`` removes it.
            tags: short texts that several runs share, in place of the present ones.
            note: a text of any length.

        Raises:
            ValueError: if a name or tag has more than 80 characters, or a tag has a comma.
        """
        words = read_annotation(self.folder)
        Annotation(
            words.name if name is None else name,
            words.tags if tags is None else tags,
            words.note if note is None else note,
        ).write(self.folder)

    @property
    def config(self) -> RunConfig:
        """Configuration of the run, with its parts as objects; ``settings`` has it as plain JSON.

        Raises:
            ValueError: if the user module of a part or model is not found here.
        """
        from gnnqlab.train.config.run_config import RunConfig

        try:
            return RunConfig.from_json(read_config(self.folder))
        except ImportError as error:
            raise ValueError(
                f"the modules of run {self.id} must be importable to build its configuration, got {error}; add their "
                f"folder to sys.path, or read run.settings, which imports none"
            ) from error

    @property
    def settings(self) -> dict[str, Any]:
        """Configuration as plain JSON; no user module is imported.

        Raises:
            ValueError: if ``config.json`` is not the configuration of a run; the message names the file.
        """
        from gnnqlab.train.config.run_config import RunConfig

        value = read_config(self.folder)
        # Defaults of a user's parts are in modules that must not be imported here: return the stored values only.
        if find_unimported_modules(value):
            return value
        try:
            return RunConfig.from_json(value).to_json()  # adds defaults for settings missing in earlier versions
        except (KeyError, TypeError, ValueError):
            return value  # from another version, or with a model registered in its own process only

    @property
    def records(self) -> pd.DataFrame:
        """One row per epoch and worker; grows while the run trains."""
        # Readers are imported on use, here and below: pandas is slow to import, and a handle often needs none.
        from gnnqlab.train.records.record import read_records

        return read_records(self.folder)

    @property
    def traffic(self) -> pd.DataFrame:
        """One row per epoch, layer, direction, sender, receiver and bit-width; see also ``read_traffic``.

        ``tier``: ``inner`` between workers of one host, ``outer`` between hosts.
        """
        from gnnqlab.train.records.traffic import read_traffic

        return read_traffic(self.folder)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Tables of the run's observers, by the name of their class; each has a column ``rank``."""
        from gnnqlab.train.records.observer_tables import read_tables

        return read_tables(self.folder)

    def read_traffic(
        self, *, epochs: Iterable[int] | None = None, last: int | None = None, spread: int | None = None
    ) -> pd.DataFrame:
        """Return the rows of ``traffic`` for some epochs, without reading the others.

        Args:
            epochs: only these epochs, for instance ``range(100, 110)``; those not recorded have no row.
            last: only this number of newest epochs that all workers have written.
            spread: only about this number of evenly spread epochs.

        Raises:
            ValueError: if more than one selection of epochs is given, or a number is not positive.

        Example:
            ``run.read_traffic(last=10).groupby("bits")["rows"].sum()``
        """
        from gnnqlab.train.records.traffic import read_traffic

        return read_traffic(self.folder, epochs=epochs, last=last, spread=spread)

    @property
    def timeline(self) -> pd.DataFrame:
        """One row per part of a layer's exchange (encode, post, central, wait, transfer ...) in recorded epochs.

        Columns: ``epoch, layer, direction, rank, what, peer, start_s, end_s``.
        """
        from gnnqlab.train.records.timeline import read_timeline

        return read_timeline(self.folder)

    @property
    def assignments(self) -> pd.DataFrame:
        """One row per assignment of bit-widths, layer and direction: solution, first epoch of use, certified gap."""
        from gnnqlab.train.records.record import read_assignments

        return read_assignments(self.folder)

    @property
    def cache(self) -> pd.DataFrame:
        """Rows sent and offered by epoch, worker, layer and direction, and the ε in force; empty without a cache."""
        from gnnqlab.train.records.cache_stats import read_cache

        return read_cache(self.folder)

    @property
    def memory(self) -> pd.DataFrame:
        """Bytes of live tensors by purpose at the peak of each recorded epoch; launch with ``memory_every``."""
        from gnnqlab.train.records.memory_tracker import read_memory

        return read_memory(self.folder)

    @property
    def decisions(self) -> pd.DataFrame:
        """Decisions about bit-widths, staleness and ε during training: ``epoch, what, why`` (SYLVIE)."""
        from gnnqlab.train.records.record import read_decisions

        return read_decisions(self.folder)

    @property
    def links(self) -> pd.DataFrame:
        """Cost model of every pair of workers (θ, γ, R²) at each assignment."""
        from gnnqlab.train.records.record import read_links

        return read_links(self.folder)

    @property
    def machines(self) -> MachineLinks | None:
        """Machines of the run and the links between them, measured at its start; ``None`` on one machine."""
        from gnnqlab.run.machine_links import read_machine_links

        return read_machine_links(self.folder)

    @property
    def warning(self) -> str:
        """Warning of a run that goes on, for instance a checkpoint that could not be written; empty without one."""
        return read_warning(self.folder)

    @property
    def summary(self) -> Summary:
        """Figures of the run, as printed by ``gnnqlab train --json``: a dictionary that is displayed with units."""
        from gnnqlab.train.records.record import summarize

        return Summary(summarize(self.folder))

    @property
    def events(self) -> list[dict[str, Any]]:
        """Events of the run, in order: launched, running, slow, stalled, recovered, its end."""
        try:
            lines = (self.folder / "events.jsonl").read_text().splitlines()
        except OSError:
            return []
        events = []
        for line in lines:
            try:
                events.append(json.loads(line))
            except ValueError:
                continue  # incomplete after a full disk
        return events

    def log(self, rank: int | None = None) -> str:
        """Return the output of one worker; by default that of torchrun."""
        return files.tail(self.folder / "logs" / ("agent.log" if rank is None else f"rank{rank}.log"), 1 << 20)
