"""Suggestions for misspelled words."""

from __future__ import annotations

import pytest

import gnnqlab as gq
from gnnqlab.by_name import closest_words, did_you_mean
from gnnqlab.graph.sources.catalogue import names
from gnnqlab.nn.models import MODELS
from gnnqlab.systems import SYSTEMS
from tests.cases import each

GRAPHS = [graph["name"].partition(":")[0] for graph in names()]


@each(
    ("slip", "known", "word"),
    [
        ("aadqp", SYSTEMS, "adaqp"),
        ("adqap", SYSTEMS, "adaqp"),
        ("vanlila", SYSTEMS, "vanilla"),
        ("vanila", SYSTEMS, "vanilla"),
        ("sylive", SYSTEMS, "sylvie"),
        ("pipgcn", SYSTEMS, "pipegcn"),
        ("bns_gcn", SYSTEMS, "bns-gcn"),
        ("Tnago", SYSTEMS, "tango"),
        ("coar", GRAPHS, "cora"),
        ("citseer", GRAPHS, "citeseer"),
        ("pumbed", GRAPHS, "pubmed"),
        ("reditt", GRAPHS, "reddit"),
        ("ogbn_proudcts", GRAPHS, "ogbn-products"),
        ("products", GRAPHS, "ogbn-products"),
        ("grpahsage", MODELS, "graphsage"),
        ("gnc", MODELS, "gcn"),
    ],
)
def test_did_you_mean_finds_the_word_of_a_slip(slip: str, known: dict[str, object] | list[str], word: str) -> None:
    assert did_you_mean(slip, known) == f"; did you mean {word}"


@each(("name", "known"), [("weather", GRAPHS), ("graphsaint", SYSTEMS), ("xyz", SYSTEMS), ("a", SYSTEMS), ("", MODELS)])
def test_did_you_mean_is_empty_where_nothing_is_near(name: str, known: dict[str, object] | list[str]) -> None:
    assert did_you_mean(name, known) == ""


def test_closest_words_order_limit_and_edits() -> None:
    assert closest_words("gcm", ["sgc", "gin", "gcn"]) == ["gcn"]
    words = ["tests", "bets", "best"]
    assert closest_words("bset", words, edits=2) == ["best", "bets"]  # a swap is one edit; bets needs two
    assert closest_words("bset", words, limit=1, edits=2) == ["best"]
    assert closest_words("bset", words, edits=0) == []
    assert closest_words("products", ["ogbn-products"], edits=2) == []  # with a limit of edits no parts of words


@each(
    ("call", "word"),
    [
        (lambda: gq.load("coar"), "cora"),
        (lambda: gq.launch("digits", system="aadqp", workers=2), "adaqp"),
        (lambda: gq.launch("digits", epohcs=3, workers=2), "epochs"),
        (lambda: gq.launch("digits", workers=2, on="slurm:nodse=2"), "nodes"),
    ],
)
def test_graphs_systems_settings_and_queues_suggest_the_nearest_name(call: object, word: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean {word}"):
        call()  # type: ignore[operator]
