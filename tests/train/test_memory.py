"""Memory of a training process: as much in the last epochs as in the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from gnnqlab.graph.generate import sbm
from gnnqlab.launch.local import launch
from gnnqlab.train.config.configure import configure
from gnnqlab.train.memory import has_large_pages, large_pages


def test_large_pages_preserves_existing_glibc_tunables() -> None:
    assert large_pages({"GLIBC_TUNABLES": "glibc.malloc.check=1"}) == {
        "GLIBC_TUNABLES": "glibc.malloc.check=1:glibc.malloc.hugetlb=1"
    }
    assert large_pages({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"}) == {}
    assert has_large_pages(large_pages({})) and not has_large_pages({})


@pytest.mark.slow
def test_memory_does_not_grow_with_the_epochs(tmp_path: Path) -> None:
    # A few bits and 16-bit gradients leave small blocks between tensors of megabytes: a heap that could not reuse the
    # memory of one such tensor for the next grew by 7 MB an epoch here.
    graph = sbm(5_000, 16, 50, features=256, name="five thousand")
    config = configure(
        graph, system="fixed-bits", bits=1, parameters="bfloat16", gradients="bfloat16", model="gcnii", layers=8,
        hidden=256, workers=2, epochs=40, evaluate_every=0,
    )  # fmt: skip
    run = launch(config, root=tmp_path, wait=True)
    memory = run.records.groupby("epoch")["memory_bytes"].max()
    assert memory.iloc[-1] <= 1.15 * memory.iloc[15], memory.tolist()
