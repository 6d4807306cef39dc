"""Accuracy and bytes: test scores relative to Vanilla, and the bytes that each system sends."""

from __future__ import annotations

from benchmarks.summary.group import FOUR_WORKERS, SYSTEMS, TWO_WORKERS, Chart, Group, SummaryTable, systems
from benchmarks.summary.measures import Measure, bytes_sent, difference, points, ratio, value

__all__ = ["ACCURACY", "BYTES"]

_TWELVE = "GraphSAGE with three layers of 32 units, eight workers, twelve seeds"
ACCURACY = Group(
    name="accuracy",
    title="Accuracy",
    chart=Chart(
        title="Test score relative to Vanilla",
        axis="difference of the test score (points, with 95 % interval; 0 = Vanilla)",
        reference=0.0,
    ),
    blocks=(
        SummaryTable(
            title="Test score of each system",
            text=f"Difference to Vanilla over the same seeds. {TWO_WORKERS} {FOUR_WORKERS} On `pcg` 150 epochs are "
            "too few for any system, so its intervals are wide.",
            measures=systems(points),
        ),
        SummaryTable(
            title="One bit per value",
            text=f"Difference to Vanilla; {_TWELVE}. With `LeastVariance` each row is sent in the one of two codes "
            "that has the smaller variance.",
            measures=(
                *(
                    Measure(
                        text=f"{words}, `{graph}`", part="codecs-trainings", case=f"{graph}, .*", contestant=name,
                        metric="test score", show=points,
                    )
                    for name, words in (("1-bit", "1 bit"), ("1-bit-r", "1 bit, `LeastVariance`"), ("sylvie", "SYLVIE"))
                    for graph in ("cora", "coauthor_physics", "amazon_computers")
                ),
                Measure(
                    text="Points that 1 bit with `LeastVariance` may lose (95 %), worst of {count} graphs",
                    part="codecs-trainings", contestant="1-bit-r",
                    metric=r"points of test score lost at most \(95 %\)", show=value, worst=True,
                ),
            ),
        ),
        SummaryTable(
            title="Other systems and precisions",
            text="Difference to the baseline that the line names.",
            measures=(
                Measure(
                    text="2 bits, GraphSAGE, `amazon_computers`, two workers, relative to Vanilla", part="accuracy",
                    case="amazon_computers, .*", contestant="2-bit", metric="test score", rival="vanilla", show=points,
                ),
                *(
                    Measure(
                        text=f"CDFGNN, {words}, `amazon_computers`, relative to one process", part="cdfgnn",
                        case="amazon_computers, .*", contestant=name, metric="test score", rival="full batch",
                        show=points,
                    )
                    for name, words in (
                        ("both", "threshold by the paper's text"), ("both as printed", "threshold by Eq. 6"),
                    )
                ),
                Measure(
                    text="int8 products, GCN, `amazon_computers`, relative to float32", part="tango",
                    case="amazon_computers, gcn .*", contestant="int8", metric="test score", rival="float32",
                    show=difference,
                ),
                Measure(
                    text="int8 products, GAT, `amazon_computers`, relative to DGL", part="tango",
                    case="amazon_computers, gat .*", contestant="int8", metric="test score", rival="DGL",
                    show=difference,
                ),
                Measure(
                    text="Activations saved in 2 bits (EXACT), GCN, `cora`, relative to float32", part="exact",
                    case="cora, gcn 3 x 256, 2 bits", metric="test score, .*", show=difference,
                ),
            ),
        ),
        SummaryTable(
            title="Rounding error of codecs",
            text="Variance of messages in 1 bit with the best codec of the direction, relative to plain codes "
            "between a row's smallest and largest value; trainings of several models on several graphs.",
            measures=tuple(
                Measure(
                    text=f"{words}, worst of {{count}} trainings", part="codecs-variance",
                    case=f".*, {direction}, mean of layers, 1 bit",
                    metric="variance of rows, the best codec of the direction", show=ratio, unit="× lower", worst=True,
                )
                for direction, words in (("forward", "Embeddings"), ("backward", "Gradients"))
            ),
        ),
    ),
)  # fmt: skip

BYTES = Group(
    name="bytes",
    title="Bytes",
    chart=Chart(
        title="Bytes sent per epoch relative to Vanilla",
        axis="bytes per epoch (share of Vanilla's; 1 = Vanilla)",
        reference=1.0,
    ),
    blocks=(
        SummaryTable(
            title="Bytes sent per epoch",
            text=f"Relative to Vanilla. {TWO_WORKERS} PipeGCN sends embeddings before their projection, because its "
            "receivers apply dropout; they are wider than Vanilla's.",
            measures=systems(bytes_sent)[: 2 * len(SYSTEMS)],
        ),
        SummaryTable(
            title="Bytes until Vanilla's accuracy",
            text=f"{_TWELVE}; only seeds in which both reach the accuracy count.",
            measures=(
                *(
                    Measure(
                        text=f"1 bit, `{graph}`, relative to AdaQP", part="codecs-trainings", case=f"{graph}, .*",
                        contestant="1-bit", metric="bytes to Vanilla's accuracy", rival="adaqp", show=ratio,
                        unit="× fewer",
                    )
                    for graph in ("cora", "coauthor_physics", "amazon_computers")
                ),
                Measure(
                    text="`LeastVariance` in 1 bit relative to plain 1 bit, worst of {count} graphs",
                    part="codecs-trainings", contestant="1-bit-r", metric="bytes to Vanilla's accuracy", rival="1-bit",
                    show=ratio, unit="× fewer", worst=True,
                ),
                Measure(
                    text="`adaqp-r` relative to AdaQP, worst of {count} graphs", part="codecs-trainings",
                    contestant="adaqp-r", metric="bytes to Vanilla's accuracy", show=ratio, unit="× fewer", worst=True,
                ),
                Measure(
                    text="`sylvie-r` relative to SYLVIE, worst of {count} graphs (neither reaches it on the third)",
                    part="codecs-trainings",
                    case="(cora|coauthor_physics), .*", contestant="sylvie-r", metric="bytes to Vanilla's accuracy",
                    show=ratio, unit="× fewer", worst=True,
                ),
            ),
        ),
        SummaryTable(
            title="Caches, broadcasts and mini-batches",
            text="Bytes or messages of an epoch.",
            measures=(
                *(
                    Measure(
                        text=f"CDFGNN's cache and 8-bit codes, `{graph}`, four workers, relative to its baseline",
                        part="cdfgnn", case=f"{graph}, .*", contestant="both", metric="sent an epoch", show=ratio,
                        unit="× fewer",
                    )
                    for graph in ("amazon_computers", "cora", "citeseer")
                ),
                Measure(
                    text="Fewest bytes within 0.3 points, `cora`, cache and codec, relative to float32 without a cache",
                    part="caches", metric="fewest bytes within 0.3 points", show=ratio, unit="× fewer",
                ),
                Measure(
                    text="Features of mini-batches in int8, two workers, relative to float32", part="minibatch",
                    case=r".*, gcn .* 2 worker\(s\) .* 1gbit .*", contestant="int8", metric="bytes an epoch",
                    show=ratio, unit="× fewer",
                ),
            ),
        ),
    ),
)  # fmt: skip
