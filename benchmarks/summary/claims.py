"""Memory, claims of the papers, and faults."""

from __future__ import annotations

from typing import Any

from benchmarks.summary.group import Chart, Group, SummaryTable
from benchmarks.summary.measures import Measure, Show, difference, points, ratio, value

__all__ = ["FAULTS", "FIDELITY", "MEMORY"]

MEMORY = Group(
    name="memory",
    title="Memory",
    chart=Chart(
        title="Memory relative to the baseline of each line",
        axis="reduction (times less memory; 1 = baseline, below 1 = more)",
        reference=1.0,
    ),
    blocks=(
        SummaryTable(
            title="Memory of a training",
            text="SAR and predictions on `rmat:12,30`, four workers. EXACT and bfloat16 on `cora`, three layers of 256 "
            "units.",
            measures=(
                *(
                    Measure(
                        text=f"SAR, {words}, {model}, relative to Vanilla", part="memory",
                        case=f"rmat:12,30, {name}, depth 0", metric=metric, rival="vanilla", show=ratio,
                        unit=unit, series="measured" if label else "", name=f"SAR, {label}, {model}",
                    )
                    for model, name in (("GraphSAGE", "graphsage"), ("GAT", "gat"))
                    for words, metric, unit, label in (
                        ("halo embeddings at the peak", "halo at the peak", "× less", "halo at the peak"),
                        ("all tensors at the peak", "all purposes at the peak", "× less", "all tensors at the peak"),
                        ("speed of an epoch", "epoch over loopback", "× as fast", ""),
                    )
                ),
                Measure(
                    text="Saved activations in 2 bits (EXACT), relative to float32", part="exact",
                    case="cora, gcn 3 x 256, 2 bits", metric="kept for the backward pass, all", show=ratio,
                    unit="× less", series="measured", name="EXACT, 2 bits, saved activations",
                ),
                Measure(
                    text="Peak of the process in that training, relative to float32", part="exact",
                    case="cora, gcn 3 x 256, 2 bits", metric="peak above the first epoch's start", show=ratio,
                    unit="× less", series="measured", name="EXACT, 2 bits, peak of the process",
                ),
                Measure(
                    text="Saved activations with bfloat16 products, GCN, relative to float32", part="compute",
                    case="cora, gcn 3 x 256, .*", metric="kept for the backward pass", show=ratio, unit="× less",
                    series="measured", name="bfloat16, saved activations",
                ),
                Measure(
                    text="Live matrices at the peak, GCN with three layers, one worker", part="memory",
                    case="gcn, 1 worker, none", metric=r"live matrices at the peak \(at most 9\)", show=value,
                    unit="matrices of nodes × hidden units",
                ),
                Measure(
                    text="The same with everything computed again in the backward pass", part="memory",
                    case="gcn, 1 worker, full", metric=r"live matrices at the peak \(at most 5\)", show=value,
                    unit="matrices of nodes × hidden units",
                ),
                Measure(
                    text="Memory of the rows that a cache holds, per layer and direction", part="caches",
                    metric="what is held, of a layer and direction", show=value,
                ),
                Measure(
                    text="Predicted relative to measured memory, worst of {count} trainings", part="memory",
                    metric="all purposes, foreseen", show=ratio, unit="of the measured", worst=True,
                ),
            ),
        ),
    ),
)  # fmt: skip


def _paper(text: str, part: str, show: Show, name: str = "", **columns: Any) -> Measure:
    return Measure(text=text, part=part, show=show, series="goal" if name else "", name=name, **columns)


FIDELITY = Group(
    name="fidelity",
    title="Agreement with the papers",
    chart=Chart(
        title="Claims of the papers: measured value relative to the goal",
        axis="measured ÷ goal (1 = as claimed, above 1 = better)",
        reference=1.0,
        of_goal=True,
    ),
    blocks=(
        SummaryTable(
            title="Claims of the papers, measured here",
            text="Goals are the papers' numbers, or stand for their claims; for SYLVIE's scores the goal is a loss of "
            "at most half a point. `gq.errata()` lists where papers, text and released code disagree.",
            measures=(
                _paper("CDFGNN, Table 3: fewer connections between hosts by γ, mean of all cuts", "cuts", value,
                       "CDFGNN, Table 3, mean of all cuts", case="mean of all", contestant="EBV γ=0.1"),
                _paper("CDFGNN, Table 3: the same on two hosts with four workers each", "cuts", value,
                       "CDFGNN, Table 3, 2 hosts × 4", case="2 x 4, mean", contestant="EBV γ=0.1"),
                _paper("CDFGNN: rows that the cache skips, `cora`, edge-cut by METIS", "caches", value,
                       "CDFGNN, skipped rows, METIS", contestant="metis / float32 / fixed", metric="rows kept home"),
                _paper("CDFGNN: rows that the cache skips, `cora`, vertex-cut by EBV", "caches", value,
                       "CDFGNN, skipped rows, EBV", contestant="ebv / float32 / fixed", metric="rows kept home"),
                _paper("SANCUS: broadcasts that are skipped, `cora`", "broadcasts", value,
                       "SANCUS, skipped broadcasts", case="cora, .*", contestant="sancus, variation",
                       metric="broadcasts avoided"),
                *(
                    _paper(f"TANGO: {words}, {model}, relative to {rival}", "tango", ratio,
                           f"TANGO, {model}, {words}", unit="× as fast", case=f"amazon_computers, {name} .*",
                           contestant="int8, scale by tensor", metric=metric, rival=rival)
                    for model, name in (("GCN", "gcn"), ("GAT", "gat"))
                    for words, metric, rival in (
                        ("whole training", "whole training", "DGL"),
                        ("time to accuracy", "to float32's accuracy less 0.5 points", "EXACT, 8 bits"),
                    )
                ),
                *(
                    _paper(f"TANGO: test score of {model}, relative to DGL", "tango", difference,
                           case=f"amazon_computers, {name} .*", contestant="int8, scale by tensor",
                           metric="test score", rival="DGL")
                    for model, name in (("GCN", "gcn"), ("GAT", "gat"))
                ),
                Measure(
                    text="SYLVIE: test score on `coauthor_physics`, relative to Vanilla, worst of {count} models",
                    part="accuracy", case="coauthor_physics, .*", contestant="sylvie", metric="test score",
                    show=points, worst=True,
                ),
                _paper("SYLVIE: test score on `amazon_computers`, relative to Vanilla", "accuracy", points,
                       case="amazon_computers, .*", contestant="sylvie", metric="test score", rival="vanilla"),
                _paper("SYLVIE: its score relative to that of always stale embeddings", "accuracy", ratio,
                       unit="of the score", case="amazon_computers, .*", contestant="sylvie", metric="test score",
                       rival="adaptive-bits-pipelined"),
            ),
        ),
    ),
)  # fmt: skip

FAULTS = Group(
    name="faults",
    title="Faults",
    chart=Chart(
        title="Faults: promised time relative to the measured time",
        axis="promised ÷ measured time (1 = as promised, above 1 = sooner)",
        reference=1.0,
        of_goal=True,
    ),
    blocks=(
        SummaryTable(
            title="Faults of a launched run",
            text="Worst of all repetitions, three workers, with a fault injected into one of them.",
            measures=tuple(
                Measure(
                    text=text, part="faults", case=case, metric=metric, rival="promised", show=show, unit=unit,
                    worst=True, series="goal" if unit == "s" else "", name=text,
                )
                for text, case, metric, show, unit in (
                    ("A killed worker is reported after", "worker killed", "reported after .*", value, "s"),
                    ("A crashed worker is reported after", "worker crashed", "reported after .*", value, "s"),
                    ("An exception is reported after", "exception", "reported after .*", value, "s"),
                    ("A stopped worker is reported after", "worker stopped", "reported after .*", value, "s"),
                    ("Killed workers reported with the correct rank, phase and epoch", "worker killed",
                     "right rank, phase and epoch", value, "of all"),
                )
            ),
        ),
        SummaryTable(
            title="Random signals and deaths",
            text="All systems in turn, two or three workers. A signal: checkpoint of its epoch, right exit status, no "
            "process left, and a resumed run with losses identical to the bit. A death (SIGKILL): a restart, losses "
            "identical to the bit. Other programs kept the processors of this machine busy, so times are long.",
            measures=(
                *(
                    Measure(
                        text=f"Signals to the {target} that keep all promises", part="faults",
                        case=f"signal to the {target}", metric="all promises kept.*", show=value, unit="of all",
                    )
                    for target in ("launcher", "guard", "agent", "worker")
                ),
                Measure(text="Deaths of workers that keep all promises", part="faults", case="worker killed, 3 retries",
                        metric="all promises kept.*", show=value, unit="of all"),
                Measure(text="The next epoch comes after (median)", part="faults", case="worker killed, 3 retries",
                        metric=r"next epoch after \(median\)", show=value, unit="s"),
            ),
        ),
    ),
)  # fmt: skip
