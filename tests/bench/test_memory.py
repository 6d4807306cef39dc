"""What SAR saves and what it takes is read off the runs: the worst worker's bytes, the slowest worker's epochs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from gnnqlab.bench import memory


def test_bytes_are_those_of_the_worst_worker_in_the_last_epoch() -> None:
    rows = [(0, 0, "halo", 9e6, 9e6), (1, 0, "halo", 1e6, 2e6), (1, 1, "halo", 3e6, 3e6), (1, 0, "rows", 5e6, 6e6)]
    found = memory.peaks(pd.DataFrame(rows, columns=["epoch", "rank", "purpose", "bytes", "peak_bytes"]))
    assert found == {"halo": 3.0, "rows": 6.0, "all purposes": 6.0}


def test_an_epoch_lasts_as_long_as_its_slowest_worker() -> None:
    epochs = pd.DataFrame({"epoch": [0, 1, 2, 2, 3, 3], "epoch_s": [9.0, 9.0, 1.0, 2.0, 4.0, 1.0]})
    assert memory._epoch_s(SimpleNamespace(records=epochs)) == 3.0


def test_runs_take_turns_and_the_least_of_each_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Any]] = []
    seconds = {("vanilla", None): [2.0, 1.0, 3.0], ("sar", 0): [4.0, 5.0, 6.0], ("sar", 1): [1.5, 1.4, 1.2]}

    def run(system: str, settings: dict[str, Any], *_: Any, memory_every: int) -> float:
        assert memory_every == 0
        asked.append((system, settings.get("depth")))
        return seconds[asked[-1]][asked.count(asked[-1]) - 1]

    monkeypatch.setattr(memory, "_run", run)
    rows = memory._timed("gat", None)
    assert asked == list(seconds) * 3
    assert [(each["case"], each["value"], each["rival_value"], each["reached"]) for each in rows] == [
        ("gat, depth 0", 4.0, 1.0, False),
        ("gat, depth 1", 1.2, 1.0, True),
    ]
    assert "(1.2 to 1.5 s; vanilla to 3 s)" in rows[1]["figure"]
