"""Generated graphs have the promised statistics, and are functions of the seed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from gnnqlab.graph import Graph, rmat, sbm, web
from tests.cases import each


def homophily(graph: Graph) -> float:
    src, dst = graph.edge_list()
    proper = src != dst
    same = graph.labels[src.long()] == graph.labels[dst.long()]
    return float(same[proper].float().mean())


def nearest_mean_accuracy(x: torch.Tensor, graph: Graph) -> float:
    """Return the test accuracy of the simplest classifier: the nearest class mean of the training rows."""
    mean = torch.stack([x[graph.train_mask & (graph.labels == c)].mean(0) for c in range(graph.num_classes)])
    guess = torch.cdist(x, mean).argmin(1)
    return float((guess == graph.labels)[graph.test_mask].float().mean())


def neighbour_mean(graph: Graph, x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding_bag(graph.indices.long(), x, graph.indptr[:-1], mode="mean")


GENERATORS: list[Callable[[int], Graph]] = [
    lambda seed: sbm(500, 3, 8, seed=seed),
    lambda seed: rmat(9, 8, seed=seed),
    lambda seed: web(500, 8, seed=seed),
]


@each("generate", GENERATORS)
def test_a_function_of_the_seed(generate: Callable[[int], Graph]) -> None:
    first, again, other = generate(3), generate(3), generate(4)
    assert first.content_hash == again.content_hash != other.content_hash


@each("generate", GENERATORS)
def test_well_formed(generate: Callable[[int], Graph]) -> None:
    g = generate(0)
    recounted = Graph(**{f: getattr(g, f) for f in g.__dataclass_fields__})  # checks all again
    assert recounted.is_symmetric and g.is_symmetric
    src, dst = g.edge_list()
    assert int((src == dst).sum()) == g.num_nodes  # one self loop each
    assert len(set(zip(src.tolist(), dst.tolist()))) == g.num_edges  # no edge twice
    sizes = [int(m.sum()) for m in (g.train_mask, g.val_mask, g.test_mask)]
    assert sum(sizes) == g.num_nodes and sizes[0] == round(0.6 * g.num_nodes)


def test_sbm_degree_classes_homophily() -> None:
    g = sbm(20_003, 7, 20, seed=1, homophily=0.5)
    # 200 030 draws: the mean degree is exact up to repeated pairs (under 1 % here) and drawn self loops.
    assert (g.num_edges - g.num_nodes) / g.num_nodes == pytest.approx(20, rel=0.02)
    counts = torch.bincount(g.labels)
    assert int(counts.max() - counts.min()) <= 1
    # Standard error sqrt(0.25 / 200 000) = 0.0011; repeats favour pairs within a class slightly.
    assert homophily(g) == pytest.approx(0.5, abs=0.01)
    assert g.name == "sbm:20003,7,20"


def test_sbm_is_learnable_from_neighbours_not_from_rows() -> None:
    g = sbm(8000, 8, 20, seed=0)
    alone = nearest_mean_accuracy(g.features, g)
    together = nearest_mean_accuracy(neighbour_mean(g, g.features), g)
    assert 1 / 8 + 0.05 < alone < 0.6
    assert alone + 0.2 < together < 0.95  # stray nodes make it non-trivial


def test_sbm_features_have_the_promised_signal() -> None:
    g = sbm(40_000, 2, 2, seed=0, features=16, signal=3.0)
    mean = g.features[g.labels == 0].mean(0)
    # The mean of 20 000 unit normals in 16 columns has length sqrt(16 / 20 000) = 0.03 in addition to the signal.
    assert float(mean.norm()) == pytest.approx(3.0, abs=0.1)


def test_rmat_has_hubs_and_classes() -> None:
    g = rmat(12, 16, seed=0)
    proper = g.in_degrees - 1
    assert g.num_nodes == 4096 and g.num_classes == 16
    assert int(proper.max()) > 20 * float(proper.float().mean())
    assert torch.bincount(g.labels).tolist() == [256] * 16
    assert 0.4 < homophily(g) < 0.7
    assert homophily(rmat(12, 16, homophily=0.0)) < 0.2
    connected = proper > 3
    x = neighbour_mean(g, g.features)
    assert nearest_mean_accuracy(x, g) > nearest_mean_accuracy(g.features, g) + 0.1
    assert bool(connected.any())


def test_web_is_local_and_has_hubs() -> None:
    g = web(8000, 16, seed=0)
    src, dst = (end.long() for end in g.edge_list())
    proper = src != dst
    distance = (src - dst).abs()[proper]
    distance = torch.minimum(distance, 8000 - distance)
    # Of a local link's log-uniform distance, log 80 / log 4000 lies below 80; popular ends add 80 / 4000 of the rest.
    expected = 0.7 * 4.38 / 8.29 + 0.3 * 0.02
    assert float((distance < 80).float().mean()) == pytest.approx(expected, abs=0.06)
    assert int(g.in_degrees.max()) > 20 * float(g.in_degrees.float().mean())
    assert torch.bincount(g.labels).tolist() == [500] * 16 and homophily(g) > 0.4
    assert homophily(web(8000, 16, local=0.0)) < 0.1


def test_edgeless_and_smallest() -> None:
    assert web(4, 0, classes=2).num_edges == 4
    assert sbm(4, 2, 0).num_edges == 4
    assert rmat(2, 0).num_edges == 4
    assert rmat(2, 3).num_classes == 2


@each(
    ("make", "text"),
    [
        (lambda: sbm(10, 1, 2), "classes must be at least 2, got 1"),
        (lambda: sbm(3, 4, 2), "nodes must be at least 4, got 3"),
        (lambda: web(10, 2), "nodes must be at least 16, got 10"),
        (lambda: web(100, 2, skew=1.0), r"skew must be in \[0, 0.999\], got 1.0"),
        (lambda: sbm(10, 2, -1), "degree must be at least 0, got -1"),
        (lambda: sbm(10, 2, 2, features=0), "features must be at least 1, got 0"),
        (lambda: sbm(10, 2, 2, homophily=1.5), r"homophily must be in \[0, 1\], got 1.5"),
        (
            lambda: sbm(10, 2, 2, homophily=0.95),
            r"homophily must lie in \[0.139, 0.861\] with 2 classes and stray=0.15, got 0.95; lower stray",
        ),
        (lambda: sbm(10, 2, 2, seed=-1), "seed must be at least 0, got -1"),
        (lambda: rmat(31, 2), r"scale must be in \[2, 30\], got 31"),
        (lambda: rmat(4, 2, classes=3), r"classes must be a power of two in \[2, 8\], got 3"),
        (lambda: rmat(4, 2, classes=16), r"classes must be a power of two in \[2, 8\], got 16"),
        (lambda: rmat(4, 2, corners=(0.5, 0.5, 0.5, 0.5)), "corners must be four probabilities that sum to 1"),
    ],
)
def test_errors(make: Callable[[], Graph], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()
