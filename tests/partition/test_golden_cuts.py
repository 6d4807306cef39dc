"""Vertex-cuts to the edge on a fixed graph, compared with slow implementations written from the papers' text.

They share no code with the partitioners: sets in place of bit masks, a search over all candidates in place of heaps,
and exact fractions in place of floats.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
import torch

import gnnqlab as gq
from gnnqlab.partition.dne import DNE
from gnnqlab.partition.ebv import EBV
from gnnqlab.partition.hep import HEP
from tests.kernels.backends import EVERY, use

Edge = tuple[int, int]
NODES = 32


def fixed_edges(number: int, seed: int) -> list[Edge]:
    """Return distinct undirected edges, in ascending order, with a few hubs: low numbers are drawn more often."""
    draw, edges = random.Random(seed), set()
    while len(edges) < number:
        u, v = int(NODES * draw.random() ** 2), int(NODES * draw.random())
        if u != v:
            edges.add((min(u, v), max(u, v)))
    return sorted(edges)


def parts_of(partitioner, edges: Sequence[Edge], workers: int) -> list[int]:
    """Return the part of each edge."""
    graph = gq.Graph.from_edges(
        [u for u, _ in edges], [v for _, v in edges], num_nodes=NODES, features=torch.eye(NODES),
        labels=[0, 1] * (NODES // 2), train_idx=[0], val_idx=[1], test_idx=[2], name="fixed", self_loops="remove",
    )  # fmt: skip
    part = partitioner.cut(graph, workers).part.tolist()
    targets = torch.repeat_interleave(torch.arange(NODES), graph.in_degrees).tolist()
    found = {(min(ends), max(ends)): number for ends, number in zip(zip(graph.indices.tolist(), targets), part)}
    return [found[edge] for edge in edges]


def degrees_of(edges: Sequence[Edge]) -> list[int]:
    ends = [end for edge in edges for end in edge]
    return [ends.count(node) for node in range(NODES)]


# -- EBV: CDFGNN Eq. 24, edges in ascending order of the degrees of their ends. ----------------------------------------


def slow_ebv(edges: Sequence[Edge], workers: int, hosts: int, settings: EBV) -> list[int]:
    degrees, per_host = degrees_of(edges), workers // hosts
    order = sorted(range(len(edges)), key=lambda e: (degrees[edges[e][0]] + degrees[edges[e][1]], e))
    limit = math.ceil((1 + settings.slack) * len(edges) / workers)
    alpha, beta, gamma = map(Fraction, (settings.alpha, settings.beta, settings.gamma if hosts > 1 else 0))

    def place(home: Sequence[int | None]) -> list[int]:
        replicas: list[set[int]] = [set() for _ in range(NODES)]
        part = [-1] * len(edges)
        for e in order:
            costs = {}
            for i in range(workers):
                if part.count(i) == limit:
                    continue
                cost = alpha * part.count(i) / Fraction(len(edges), workers)
                cost += beta * sum(i in each for each in replicas) / Fraction(NODES, workers)
                for end in edges[e]:
                    cost += (1 - gamma) * (i not in replicas[end])
                    hosts_of_end = {each // per_host for each in replicas[end]} | {home[end]}
                    cost += gamma * (i // per_host not in hosts_of_end)
                costs[i] = cost
            part[e] = min(costs, key=lambda i: (costs[i], i))
            for end in edges[e]:
                replicas[end].add(part[e])
        return part

    part = place([None] * NODES)
    for _ in range(settings.passes if settings.host_term == "home" and hosts > 1 else 0):
        home: list[int | None] = []
        for node in range(NODES):
            on = [part[e] // per_host for e, edge in enumerate(edges) if node in edge]
            home.append(max(range(hosts), key=lambda host: (on.count(host), -host)))
        part = place(home)
    return part


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize(
    ("settings", "hosts"),
    [
        # Powers of two: costs are exact in floats too, so that ties are ties.
        (EBV(gamma=0, alpha=2.0, beta=0.5), 1),
        (EBV(gamma=0, alpha=0.5, beta=2.0), 1),
        (EBV(gamma=0.25, hosts=2, host_term="copies"), 2),
        (EBV(gamma=0.25, hosts=2, passes=3), 2),
        (EBV(gamma=0.5, hosts=4, passes=2, alpha=0.25), 4),
        (EBV(gamma=0.25, hosts=2, passes=1, slack=0.5), 2),
    ],
    ids=str,
)
def test_ebv_places_every_edge_as_the_equation_says(backend: str, settings: EBV, hosts: int) -> None:
    edges = fixed_edges(64, seed=1)  # 16 edges and 8 nodes a part
    with use(backend):
        assert parts_of(settings, edges, 4) == slow_ebv(edges, 4, hosts, settings)


# -- HEP: NE++ over edges with an end of low degree, then HDRF. --------------------------------------------------------


def slow_hep(edges: Sequence[Edge], workers: int, settings: HEP) -> list[int]:
    degrees = degrees_of(edges)
    hubs = {node for node in range(NODES) if degrees[node] > settings.tau * Fraction(2 * len(edges), NODES)}
    between = [e for e, edge in enumerate(edges) if set(edge) <= hubs]
    part = [-1] * len(edges)
    low = [e for e in range(len(edges)) if e not in between]
    room = len(low) // workers + 1

    def free(node: int) -> list[int]:
        return [e for e in low if part[e] < 0 and node in edges[e]]

    def other(e: int, node: int) -> int:
        return sum(edges[e]) - node

    for number in range(workers - 1):
        joined: list[int] = []
        core: set[int] = set()

        def join(node: int, number: int = number, joined: list[int] = joined) -> None:
            joined.append(node)
            for e in free(node):
                if other(e, node) in hubs or other(e, node) in joined:
                    part[e] = number if part.count(number) < room else number + 1

        while part.count(number) < room:
            boundary = [node for node in joined if node not in core and free(node)]
            if boundary:
                node = min(boundary, key=lambda node: (len(free(node)), node))
            else:
                seeds = [node for node in range(NODES) if node not in hubs and free(node)]
                if not seeds:
                    break
                node = seeds[0]
                join(node)
            core.add(node)
            for e in free(node):
                if part[e] < 0 and other(e, node) not in joined:
                    join(other(e, node))
    limit = math.ceil(len(edges) / workers) + 1
    for e in [*(e for e in low if part[e] < 0), *between]:
        loads, (u, v) = [part.count(i) for i in range(workers)], edges[e]
        scores = {}
        for i in range(workers):
            if loads[i] == limit:
                continue
            ends = {end for number, edge in zip(part, edges) if number == i for end in edge}
            scores[i] = Fraction(settings.lam) * (max(loads) - loads[i]) / (1 + max(loads) - min(loads))
            for end in (u, v):
                scores[i] += (end in ends) * (2 - Fraction(degrees[end], degrees[u] + degrees[v]))
        part[e] = max(scores, key=lambda i: (scores[i], -i))
    return part


@pytest.mark.parametrize("tau", [0.0, 0.8, 1.5, 10.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_hep_places_every_edge_as_its_description_says(tau: float, seed: int) -> None:
    edges, settings = fixed_edges(90, seed=seed), HEP(tau=tau, lam=1.0)
    assert parts_of(settings, edges, 4) == slow_hep(edges, 4, settings)


# -- DNE: parts grow at once, in rounds of requests that are served in random order. -----------------------------------


def slow_dne(edges: Sequence[Edge], workers: int, settings: DNE) -> list[int]:
    room = math.ceil(settings.balance * len(edges) / workers)
    draw = np.random.default_rng(settings.seed)
    seeds = draw.permutation(NODES).tolist()
    part = [-1] * len(edges)
    replicas: list[set[int]] = [set() for _ in range(NODES)]
    core: list[set[int]] = [set() for _ in range(workers)]

    def free(node: int) -> list[int]:
        return [e for e, edge in enumerate(edges) if part[e] < 0 and node in edge]

    def give(e: int, number: int) -> None:
        part[e] = number
        for end in edges[e]:
            replicas[end].add(number)

    while -1 in part:
        requests = []
        for number in range(workers):
            if part.count(number) >= room:
                continue
            boundary = [node for node in range(NODES) if number in replicas[node] and node not in core[number]]
            boundary = sorted((node for node in boundary if free(node)), key=lambda node: (len(free(node)), node))
            chosen = boundary[: max(1, int(settings.lam * len(boundary)))]
            core[number] |= set(chosen)
            chosen = chosen or [node for node in seeds if free(node)][:1]
            requests += [(node, number) for node in chosen]
        new: list[int] = []
        for index in draw.permutation(len(requests)).tolist():
            node, number = requests[index]
            for e in free(node):
                if part.count(number) < room:
                    new += [end for end in (node, sum(edges[e]) - node) if number not in replicas[end]]
                    give(e, number)
        for node, e in itertools.chain.from_iterable(
            ((node, e) for e in range(len(edges))) for node in dict.fromkeys(new)
        ):
            if part[e] < 0 and node in edges[e]:
                shared = replicas[edges[e][0]] & replicas[edges[e][1]]
                number = min(shared, key=lambda i: (part.count(i), i), default=-1)
                if number >= 0 and part.count(number) < room:
                    give(e, number)
    return part


@pytest.mark.parametrize("settings", [DNE(), DNE(lam=0.4), DNE(lam=1.0, balance=1.01), DNE(seed=3)], ids=str)
@pytest.mark.parametrize("seed", [1, 2])
def test_dne_places_every_edge_as_its_description_says(settings: DNE, seed: int) -> None:
    edges = fixed_edges(90, seed=seed)
    assert parts_of(settings, edges, 4) == slow_dne(edges, 4, settings)
