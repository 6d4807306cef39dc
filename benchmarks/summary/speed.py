"""Speed: whole trainings relative to Vanilla, epochs relative to other libraries, kernels relative to their limits."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.summary.group import FOUR_WORKERS, TWO_WORKERS, Chart, Group, SummaryTable, systems
from benchmarks.summary.measures import Measure, ratio, time_to_accuracy, value

__all__ = ["SPEED"]


def _codec(text: str, case: str, metric: str, rival: str = "memcpy", part: str = "codec-epyc") -> Measure:
    return Measure(
        text=text, part=part, case=rf"{case}, 1 thread\(s\)", metric=metric, rival=rival, show=ratio, unit="× as fast"
    )


SPEED = Group(
    name="speed",
    title="Speed",
    chart=Chart(
        title="Time of a whole training relative to Vanilla",
        axis="speed-up over Vanilla (times as fast; 1 = Vanilla)",
        reference=1.0,
    ),
    blocks=(
        SummaryTable(
            title="Time of a whole training",
            text="Relative to Vanilla; bit-width assignment, waiting and start are included. "
            f"{TWO_WORKERS} {FOUR_WORKERS} On `cora` the weight gradients are as large as the messages, so fewer "
            "bits save little time. More graphs, GraphSAGE and systems with all services of the library are in the "
            "[stored table](../gnnqlab/results/systems.md).",
            measures=systems(ratio, "× as fast"),
        ),
        SummaryTable(
            title="Time to Vanilla's accuracy",
            text="The same trainings. If some seeds did not reach the accuracy, the line shows how many did.",
            measures=tuple(replace(each, series="") for each in systems(time_to_accuracy)),  # not drawn
        ),
        SummaryTable(
            title="Epochs and trainings relative to other libraries",
            text="One worker with two threads, unless the line says otherwise. `sbm:200000` is a generated graph with "
            "200,000 nodes.",
            measures=(
                *(
                    Measure(
                        text=f"Epoch of {model}, `sbm:200000`, relative to {words}", part="epoch",
                        case=f"sbm:200000,16,50, {name}, .*", metric="epoch", rival=rival, show=ratio,
                        unit="× as fast",
                    )
                    for model, name in (("GCN", "gcn"), ("GraphSAGE", "graphsage"))
                    for rival, words in (
                        ("dgl.nn", "DGL"), ("dgl.nn, pages kept", "DGL with our memory settings"),
                    )
                ),
                *(
                    Measure(
                        text=f"Training in int8, {model}, `amazon_computers`, relative to {words}", part="tango",
                        case=f"amazon_computers, {name} .*", contestant="int8", metric="whole training", rival=rival,
                        show=ratio, unit="× as fast",
                    )
                    for model, name in (("GCN", "gcn"), ("GAT", "gat"))
                    for rival, words in (("float32", "our float32"), ("DGL", "DGL"))
                ),
                *(
                    Measure(
                        text=f"Epoch of {model} with norm, activation and dropout in one pass", part="nodewise-epyc",
                        case=rf".*, {name} 3 x 256, one worker, 2 thread\(s\)", metric="epoch", show=ratio,
                        unit="× as fast",
                    )
                    for model, name in (("GCN", "gcn"), ("GraphSAGE", "graphsage"))
                ),
                Measure(
                    text="Mini-batches in int8, GCN, two workers over 1 Gbit/s, relative to DGL", part="minibatch",
                    case=r".*, gcn .* 2 worker\(s\) .* 1gbit .*", contestant="int8", metric="epoch, median",
                    rival="DGL float32", show=ratio, unit="× as fast",
                ),
                Measure(
                    text="Share of an epoch that the named phases explain", part="epoch", case=".*two workers",
                    metric="share of the epoch that named phases explain", show=value, unit="of the epoch",
                ),
            ),
        ),
        SummaryTable(
            title="Kernels relative to their limits",
            text="One thread. Codecs are compared with `memcpy` of the float32 rows, which is the limit of memory, and "
            "with the framework's own operations. D is the number of values per row.",
            measures=(
                _codec("Encode 2 bits, D = 256, relative to `memcpy`", "encode, D = 256, ascending rows", "2 bit"),
                _codec("Encode 2 bits, D = 64, relative to `memcpy`", "encode, D = 64, ascending rows", "2 bit"),
                _codec("Encode 8 bits, D = 256, relative to `memcpy`", "encode, D = 256, ascending rows", "8 bit"),
                _codec("Encode 2 bits, D = 256, relative to `memcpy`, AVX2",
                       "encode, D = 256, ascending rows", "2 bit", part="codec-epyc-avx2"),
                _codec("Encode 2 bits after two rotations, D = 256, relative to `memcpy`",
                       "encode, D = 256, ascending rows", "rotated, 2 bit"),
                _codec("Encode 2 bits, D = 256, relative to `index_select` of float32 rows",
                       "encode, D = 256, ascending rows", "2 bit", "index_select"),
                _codec("Encode 2 bits, D = 256, relative to PyTorch's prepack (rounds to nearest)",
                       "encode, D = 256, ascending rows", "2 bit", r"2bit_prepack \(nearest\)"),
                _codec("Decode 2 bits, D = 256, relative to `memcpy`", "decode, D = 256", "2 bit"),
                Measure(
                    text="Exchange in 2 bits over an emulated 1 Gbit/s link, relative to float32", part="exchange",
                    case="1gbit between emulated hosts, direct, .*", metric="2 bit, float32 parameters",
                    rival="float32, direct", show=ratio, unit="× as fast",
                ),
                Measure(
                    text="Rate of 2-bit messages on that link, relative to its goodput", part="exchange",
                    case="1gbit between emulated hosts, direct, .*",
                    metric="wire time of 2 bit, float32 parameters", show=ratio, unit="of the goodput",
                ),
                *(
                    Measure(
                        text=f"Neighbour sums, 9.3 million edges, D = 256, {words}", part="spmm",
                        case=r"power law, 200000 nodes, .* D = 256, 1 thread\(s\)", metric=metric, rival=rival,
                        show=ratio, unit="× as fast",
                    )
                    for words, metric, rival in (
                        ("relative to DGL", "float32 weighted, forward", "DGL copy_u/sum, no weights"),
                        ("relative to `torch.sparse`", "float32 weighted, forward", "torch.sparse CSR"),
                        ("bfloat16 relative to float32", "bfloat16 rows, forward", "own float32"),
                    )
                ),
                Measure(
                    text="Dense product in int8, 34,493 × 256 by 256 × 256, relative to float32", part="int8-epyc",
                    case=r"34493 x 256 by 256 x 256, 1 thread\(s\).*", metric="X W, scale by row",
                    rival="torch float32", show=ratio, unit="× as fast",
                ),
                Measure(
                    text="Sampled sums along edges in int8, relative to DGL", part="int8-epyc",
                    case=r"power law, 100000 nodes, .* 1 thread\(s\)", metric="SDDMM add", rival="DGL u_add_v",
                    show=ratio, unit="× as fast",
                ),
                Measure(
                    text="Processor time for choosing the rows that a cache skips", part="caches",
                    case="sbm of 20000 .*",
                    metric="choosing rows, of the processor time of a pass", show=value, unit="% of a pass",
                ),
            ),
        ),
    ),
)  # fmt: skip
