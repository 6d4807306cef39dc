"""Every measurement has a name, and refuses wrong options before any training or timing."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from benchmarks.registry import BENCHES, measure
from tests.cases import each

REFUSED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("accuracy", {"models": ("mlp",)}, r"models must be among .*'gcn'.*, got \['mlp'\]"),
    ("accuracy", {"systems": ("3-bit",)}, r"systems must be among .*'sylvie'.*, got \['3-bit'\]"),
    ("accuracy", {"seeds": 0}, "seeds must be at least 1, got 0"),
    (
        "accuracy",
        {"graph": "digits", "models": ("gcn",), "systems": ("1-bit",)},
        r"something to compare with Vanilla, got models \['gcn'\].*\['1-bit'\]; name",
    ),
    ("broadcasts", {"systems": ["sancos"]}, "a line must be one of"),
    ("broadcasts", {"seeds": 0}, "seeds must be at least 1"),
    ("broadcasts", {"models": ("gcn",)}, r"bench broadcasts takes no \['models'\]; leave it out"),
    ("caches", {"seeds": 0}, "seeds must be at least 1"),
    ("caches", {"systems": ["telepathy"]}, r"a line must be one of .*, got \['telepathy'\]"),
    ("cdfgnn", {"graph": "digits", "seeds": 0}, "seeds must be at least 1, got 0"),
    ("codec", {"link": "1gbit"}, r"bench codec takes no \['link'\]; leave it out"),
    ("codecs", {"seeds": 0}, "seeds must be at least 1"),
    ("codecs", {"seeds": 1, "systems": ("3-bit",)}, r"systems must be among .*, got \['3-bit'\]"),
    ("codecs", {"seeds": 1, "models": ("gcn",)}, "trainings for --seeds are of one model"),
    ("codecs", {"seeds": 1, "parts": ("means",)}, "trainings for --seeds are one table"),
    ("codecs", {"parts": ("mean",)}, r"parts must be some of .*, got \('mean',\)"),
    ("codecs", {"systems": ("sylvie",)}, "add --seeds or leave them out"),
    ("codecs", {"workers": (4,)}, "add --seeds or leave them out"),
    ("codecs", {"first_seed": 1}, "add --seeds or leave them out"),
    ("compute", {"models": ("gin",)}, r"models must be among .*, got \['gin'\]"),
    ("compute", {"epochs": 0}, "got 5, 0 and 5"),
    ("epoch", {"hosts": 2}, r"bench epoch takes \['hosts'\] together with a link only; add --link or"),
    ("epoch", {"workers": (2,)}, r"\['workers'\] together with a link only"),
    ("epoch", {"models": ("gat", "gcn")}, "models of bench epoch must be of gcn, graphsage, got gat"),
    (
        "epoch",
        {"link": "1gbit", "comm_share": 0.5, "graph": "digits"},
        "comm_share chooses the rate of the link, got link '1gbit' as well",
    ),
    ("exact", {"repeats": 0, "epochs": 1, "seeds": 1}, "got 0, 1 and 1"),
    ("fanouts", {"graph": "digits", "seeds": 0}, "seeds must be at least 1, got 0"),
    ("int8", {"models": ("gin",)}, r"models must be among .*, got \['gin'\]"),
    ("int8", {"epochs": 0}, "got 5, 0 and 5"),
    ("limits", {"models": ("gcn", "gat")}, r"models must be among .* got \['gat'\]"),
    ("limits", {"workers": (2, 4)}, r"workers must be among \[1, 2\], got \[4\]"),
    ("limits", {"epochs": 3}, "epochs must be at least 4"),
    ("memory", {"parts": ["peak"]}, r"parts must be among \['peaks', .*\], got \['peak'\]"),
    ("memory", {"models": ["gcm"]}, "models must be among"),
    ("memory", {"systems": ["sarr"]}, "systems must be among"),
    ("memory", {"epochs": 1}, "epochs must be at least 2, the first of which is not counted, got 1"),
    ("minibatch", {"models": ("sgc",)}, r"models must be among \['gcn', 'graphsage', 'gat'\], got \['sgc'\]"),
    ("minibatch", {"repeats": 0}, r"at least 1, seeds 0, got 0, 30, 5 and \(1, 2, 4\)"),
    ("minibatch", {"workers": (0,)}, r"got 3, 30, 5 and \(0,\)"),
    ("nodewise", {"repeats": 0}, "repeats must be at least 1, got 0"),
    ("nodewise", {"models": ("gcn", "gat")}, r"models must be some of .*'jknet'\), got \['gat'\]"),
    ("precision", {"systems": ("nosys",)}, r"systems must be among .*, got \['nosys'\]"),
    ("precision", {"computes": ("int4",)}, r"computes must be among .*, got \['int4'\]"),
    ("precision", {"seeds": 0}, "seeds must be at least 1, got 0"),
    (
        "predict",
        {"workers": (3,), "hosts": 2},
        r"workers and hosts must be among .* got \(3,\) worker\(s\) and 2 hosts",
    ),
    ("predict", {"systems": ("x",)}, "system must be one of .* got 'x'"),
    ("systems", {"systems": ("3-bit",)}, r"must be among .*'vanilla'.*, with or without a \+, got \['3-bit'\]"),
    ("systems", {"seeds": 0}, "seeds must be at least 1, got 0"),
    ("tall", {"repeats": 0}, "repeats must be at least 1, got 0"),
    ("tango", {"models": ("gin",)}, r"models must be among \['gat', 'gcn'\], got \['gin'\]"),
    ("tango", {"models": ()}, "got none"),
    ("tango", {"seeds": 0}, "epochs and seeds must be at least 1, got 200 and 0"),
    ("throughput", {"models": ("mlp",)}, r"models must be among .*'gcn'.*, got \['mlp'\]"),
    ("throughput", {"systems": ("3-bit",)}, r"systems must be among .*'sylvie'.*, got \['3-bit'\]"),
    ("versions", {}, "needs another gnnqlab to compare with, got none; .* --other"),
)


@each(("name", "options", "text"), REFUSED)
def test_measurements_refuse(name: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        measure(name, **options)


@each("name", BENCHES)
def test_a_name_is_a_function_of_its_module(name: str) -> None:
    assert getattr(importlib.import_module(BENCHES[name]), name).__doc__
