"""Losses of every system on every model stay the same bit for bit: a change of structure changes no number.

Stored for each kind of processor in ``recorded/losses-*.json``: losses in hexadecimal, and a digest of the weights
after them. Sums run in another order on another instruction set, so on others losses have a tolerance and weights are
not compared. ``python -m tests.test_recorded_losses`` writes the file of this machine again after a justified change.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
import torch

from gnnqlab.nn import ModelSettings
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import SYSTEMS, make_system
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from tests.graphs import random_graph
from tests.ranks import run_ranks

FOLDER = Path(__file__).parent / "recorded"
EPOCHS = 4
"""Fewer than SYLVIE observes before it decides: its decisions depend on measured seconds."""
GRAPHS = {
    "undirected": {"nodes": 60, "edges": 240, "features": 40, "seed": 3},
    "directed": {"nodes": 48, "edges": 160, "features": 12, "seed": 7, "directed": True, "multi_label": True},
}
CASES = (("undirected", 1), ("undirected", 3), ("directed", 2))
"""Graph and number of workers."""
SETTINGS = {"adaqp": {"lam": 1.0, "when": "blocking"}, "adaqp-q": {"lam": 1.0, "when": "blocking"}}
"""λ = 1 ignores seconds, and the epoch in which an assignment computed in the background is ready is not known."""
RECORDED_SYSTEMS = (
    "adaqp", "adaqp-p", "adaqp-q", "bns-gcn", "fixed-bits", "pipegcn", "random-bits", "sylvie", "vanilla", "varco",
)  # fmt: skip
SHAPE = {"layers": 3, "hidden": 16, "dropout": 0.3, "input_dropout": 0.1}


def processor() -> str:
    """Return the facts that the order of sums depends on: PyTorch, its instruction set, and the processor."""
    told = Path("/proc/cpuinfo").read_text()
    facts = [re.search(rf"^{name}\s*:\s*(\S+)", told, re.MULTILINE) for name in ("vendor_id", "cpu family", "model")]
    kind = torch.backends.cpu.get_cpu_capability()
    words = [f"torch{torch.__version__.split('+')[0]}", kind, *(fact[1] if fact else "unknown" for fact in facts)]
    return "-".join(words).lower()


def train_all(rank: int, workers: int, graph_name: str) -> dict[str, list[str]]:
    """Train every system and model on one graph; return losses and the digest of the weights."""
    graph = random_graph(**GRAPHS[graph_name])
    shard = build_shard(graph, Random(seed=1).assign(graph, workers), rank, workers)
    return {
        f"{system}/{model}": _train(shard, system, model) for system in RECORDED_SYSTEMS for model in sorted(MODELS)
    }


def _train(shard, system: str, model: str) -> list[str]:
    settings = TrainSettings(seed=5, weight_decay=1e-3)
    recipe = make_system(system, **SETTINGS.get(system, {}))
    trainer = worker_trainer(shard, recipe, ModelSettings(name=model, **SHAPE), settings)
    losses = []
    for epoch in range(EPOCHS):
        losses.append(float(trainer.epoch(epoch)).hex())
        if epoch == 1:
            trainer.evaluate(epoch)
    weights = hashlib.blake2b(trainer.parameters.values.numpy().tobytes(), digest_size=8).hexdigest()
    trainer.close()
    return [*losses, weights]


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "workers"), CASES)
def test_losses_equal_the_recorded_losses(graph: str, workers: int) -> None:
    found = run_ranks(train_all, workers, graph)
    assert all(other == found[0] for other in found), "workers ended with different losses or weights"
    own = FOLDER / f"losses-{processor()}.json"
    exact = own.exists()
    path = own if exact else next(iter(sorted(FOLDER.glob("losses-*.json"))))
    recorded = json.loads(path.read_text())[f"{graph}/{workers}"]
    assert set(recorded) == set(found[0])
    for case, values in recorded.items():
        if exact:
            assert found[0][case] == values, f"{case}: the losses, or the weights after them, have changed"
        else:  # sums in another order: differences of 1e-6 were measured between AVX-512 and AVX2
            before, now = ([float.fromhex(loss) for loss in each[:-1]] for each in (values, found[0][case]))
            assert now == pytest.approx(before, rel=1e-4), case


def test_every_system_is_recorded() -> None:
    assert set(RECORDED_SYSTEMS) <= set(SYSTEMS)
    for path in FOLDER.glob("losses-*.json"):
        for trained in json.loads(path.read_text()).values():
            assert {case.split("/")[0] for case in trained} == set(RECORDED_SYSTEMS)


def record() -> None:
    """Write the file of this machine again."""
    trained = {f"{graph}/{workers}": run_ranks(train_all, workers, graph)[0] for graph, workers in CASES}
    lines = ",\n".join(
        f" {json.dumps(place)}: {{\n"
        + ",\n".join(f"  {json.dumps(case)}: {json.dumps(values)}" for case, values in each.items())
        + "\n }"
        for place, each in trained.items()
    )
    (FOLDER / f"losses-{processor()}.json").write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    record()
