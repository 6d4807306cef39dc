"""Memory by purpose: the bars are the worst worker's bytes in megabytes."""

import pandas as pd
import pytest

from gnnqlab.lab.training.memory_view import memory_figure
from gnnqlab.train.records.memory_tracker import MEMORY_COLUMNS, PURPOSES


def test_bars_are_those_of_the_worst_worker_at_its_peak():
    rows = [(1, rank, purpose, (rank + 1) * 1_000_000, 9_000_000) for rank in (0, 1) for purpose in PURPOSES]
    figure = memory_figure({"sar": pd.DataFrame(rows, columns=list(MEMORY_COLUMNS))})
    assert len(figure.data) == len(PURPOSES) and all(list(bar.y) == [2.0] for bar in figure.data)
    assert figure.layout.barmode == "stack" and "(MB)" in figure.layout.yaxis.title.text
    assert "sar 12 MB" in figure.layout.meta["caption"]


def test_memory_figure_without_counts_raises_value_error():
    with pytest.raises(ValueError, match="memory_every=1"):
        memory_figure({"vanilla": pd.DataFrame([], columns=list(MEMORY_COLUMNS))})
