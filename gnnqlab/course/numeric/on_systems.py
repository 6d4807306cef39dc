"""Exercises of notebooks 12 to 28: formula, second hint, and the text with other numbers."""

from __future__ import annotations

from gnnqlab.course.numeric.exercise import Exercise
from gnnqlab.course.numeric.exercise import exercise as one

__all__ = ["ON_SYSTEMS"]

ON_SYSTEMS: dict[str, Exercise] = {
    # Notebook 12: vertex-cuts.
    "12.held": one(
        "leaves + 3", "Every leaf is on the worker of its one edge; the hub is on all three.",
        "A hub has {leaves} neighbours, which have no other edges. Each of three workers gets a "
        "third of the edges. How "
        "many rows do the workers store in all?",
        leaves=(9, 12, 15),
    ),
    "12.rows": one(
        "2 * (workers - 1)", "The hub has one master, and a mirror on each other worker. What does a mirror send, what "
        "does it receive?",
        "The hub of a star is on {workers} workers, each leaf on one. How many rows are sent in "
        "one aggregation, gather "
        "and scatter together?",
        workers=(3, 4, 5),
    ),
    "12.tiers": one(
        "(100 + times * 100) / (100 * 1.5 + times * 100 * 0.6)",
        "Before: 100 + {times} · 100. After: 1.5 times as many inner rows, and 0.6 times as many outer ones.",
        "A worker sends 100 inner and 100 outer rows, one after another; an outer row takes {times} times as long. γ "
        "saves 40 % of the outer rows and adds 50 % to the inner ones. What is the speed-up of the exchange?",
        times=(10, 20, 5),
    ),
    # Notebook 13: CDFGNN's cache.
    "13.moved": one(
        "(second - 1) / 2", "Divide the largest change by the largest element of the current row.",
        "A receiver has the copy (2, 1); now the row is (2, {second}). From which ε on is it skipped?",
        second=(1.5, 1.4, 1.8), unit="share",
    ),
    "13.bound": one(
        "high / 2**bits", "The largest value is clamped by a whole step: range / 2^B, with B = {bits}.",
        "A difference has values from 0 to {high}. What is the largest error of a value after the linear codec with "
        "{bits} bits and the clamp?",
        high=(8, 4, 12), bits=4,
    ),
    "13.epsilon": one(
        "min(1.05 * eps, eps + 0.01)", "A gain in accuracy relaxes ε: take the smaller of 1.05 ε and ε + 0.01.",
        "ε is {eps}, the mean accuracy 0.70, that of this epoch 0.75. What is ε in the next epoch, by the text?",
        eps=(0.05, 0.04, 0.3),
    ),
    # Notebook 14: links within and between hosts.
    "14.busiest": one(
        "max(40 / 2000, outer / 25) * 1000", "Both are sent at the same time: which takes longer?",
        "A worker sends 40 MB within its host at 2 GB/s, while its host sends {outer} MB to another host at 25 MB/s. "
        "How many ms does the exchange take?",
        outer=(10, 15, 20),
    ),
    "14.factor": one(
        "400 / max((1 - saved) * 400, 1.5 * 20)",
        "Between hosts, less of 400 ms. How long does the part within a host take, which was 20 ms?",
        "An exchange takes 400 ms between hosts and 20 ms within, at the same time. A partition "
        "sends the share {saved} "
        "less between hosts and 50 % more within. What is the speed-up?",
        saved=(0.3, 0.2, 0.4),
    ),
    "14.bits": one(
        "max(40 / 2000, 10 * bits / 32 / 25) * 1000", "How many of the 10 MB are left between the hosts?",
        "40 MB within a host at 2 GB/s, and 10 MB of float32 between hosts at 25 MB/s. Rows between hosts are now sent "
        "in {bits} bits. How many ms does the exchange take?",
        bits=(8, 4),
    ),
    # Notebook 15: TANGO's integer products.
    "15.code": one(
        "value / (3 / 127)", "s = 3 / 127, and noise rounds {value} / s up with the probability of its fraction.",
        "A row has the scale 3 / 127. Which code does the value {value} get, on average?", value=(1.5, 1, 2.5),
    ),
    "15.odds": one(
        "exp(error)", "The odds of two classes are e to the difference of their logits.",
        "The error of one of two logits is {error}. By which factor do the odds of the two classes change?",
        error=(0.7, 0.5, 1.2),
    ),
    "15.bytes": one(
        "4 * columns / (columns * bits / 8 + 4)",
        "{columns} floats of four bytes; {columns} codes of one byte and one float32 scale per row.",
        "A product reads rows of {columns} values, as float32 or as codes of eight bits with one "
        "float32 scale per row. "
        "How many times fewer bytes does it read?",
        columns=(256, 64, 32), bits=8,
    ),
    # Notebook 16: models of DGL.
    "16.whole": one(
        "1 / (1 - share + share / 2.5)", "One part of the epoch stays as it is, the rest shrinks by 2.5.",
        "Products are the share {share} of an epoch and become 2.5 times as fast. What is the speed-up of the epoch?",
        share=(0.6, 0.5, 0.8),
    ),
    "16.reuse": one(
        "100 * 2 * once / (3 * (3 + once))", "Three products and three quantizations, or three products and one.",
        "Three products read the same rows. Each product takes 3 ms, and quantizing the rows takes {once} ms. How many "
        "percent of the time is saved if the rows are quantized once instead of three times?",
        once=(2, 1, 4), unit="percent",
    ),
    "16.area": one("3 / 4", "Four pairs of an edge and a non-edge: in how many does the edge score higher?"),
    # Notebook 17: all systems compared.
    "17.broadcast": one(
        "nodes * (workers - 1)", "Every worker receives the blocks of all others: to how many is each block sent?",
        "{nodes} nodes, {workers} workers. How many rows does a broadcast send, all workers together, in one "
        "aggregation?",
        nodes=(5000, 3000), workers=(16, 8, 12),
    ),
    "17.even": one(
        "halo / 1000 + 1", "A halo exchange sends Ω rows and a broadcast (P - 1) n: which P makes them equal?",
        "A graph of 1000 nodes has {halo} halo rows for any number of workers. With how many workers does a broadcast "
        "send as many rows?",
        halo=(8000, 6000, 12_000),
    ),
    "17.memory": one(
        "2 * 32 / workers", "It holds its own rows and, at any time, those of one other worker.",
        "32 equal blocks of rows, shared out evenly among {workers} workers, whose halo is all other rows. How many "
        "blocks does SAR store at a time, if it fetches nothing in advance?",
        workers=(8, 4, 16),
    ),
    # Notebook 18: predictions for larger clusters.
    "18.ring": one(
        "2 * (workers - 1) / workers * size * 1e6 / 1.25e9 * 1e3", "2 (P - 1) / P of them cross each link: 1.25 GB/s.",
        "{workers} workers sum {size} MB of gradients in a ring, each over its own link of 10 Gbit/s. How many ms do "
        "the bytes take?",
        workers=(64, 16), size=(4, 6, 10),
    ),
    "18.turns": one(
        "2 * (workers - 1) * 5 / 1000", "2 (P - 1) messages, one after another.",
        "{workers} workers sum in a ring, with 5 µs per message, without the bytes. How many ms?",
        workers=(10_000, 1000, 4000),
    ),
    "18.crossing": one(
        "(100 - 8) * 8 / coding", "The bytes saved must take longer than the coding on the wire; a byte has 8 bits.",
        "100 MB of float32 rows cross the busiest link, or 8 MB in two bits. Encoding and decoding take {coding} ms. "
        "From how many Gbit/s on is float32 faster?",
        coding=(4, 5, 8),
    ),
    "18.amdahl": one(
        "compute / 8 + 20",
        "Eight times as many workers: one part of the epoch shrinks to an eighth, the other does not.",
        "In an epoch of eight workers, computation takes {compute} ms and the sum of gradients 20 ms, the same for any "
        "number of workers. How many ms does an epoch take on 64 workers?",
        compute=(80, 160, 40),
    ),
    # Notebook 19: errata of the papers.
    "19.codes": one(
        "bits + 1", "The largest code is 2^B, and 0 is a code too: how many bits does 2^B need?",
        "CDFGNN's Eq. 22 with B = {bits}. How many bits does the largest code take?", bits=(4, 8, 2),
    ),
    "19.product": one("36 / 6", "(1/6)(1/6) = 1/36; how many times 1/36 is 1/6?"),
    "19.bytes": one("2.5 / 1.45", "Compare 2.50 bits per element with the 1.45 that Table XII implies."),
    # Notebook 20: a system of one's own.
    "20.variance": one(
        "1 * (top - 1)", "Each element has |x| (s - |x|), with s = {top}; the first and the last are sent exactly.",
        "The row ({top}, −1, 0) is sent in ternary codes. What is the variance of the whole row?", top=(4, 5, 7),
    ),
    # Notebook 21: a graph of one's own.
    "21.bytes": one(
        "halo * 4 * (612 + 512) / 1e6",
        "Rows of 100, 256 and 256 columns are received; gradients of all but the first are sent back.",
        "A worker has {halo} halo rows. Its three layers have inputs of 100, 256 and 256 columns, and it uses float32. "
        "How many megabytes does it receive and send back in an epoch?",
        halo=(10_000, 20_000, 5000),
    ),
    "21.bits": one(
        "halo * bits / 8 * (612 + 512) / 1e6", "{bits} bits are {bits}/8 of a byte; a float32 has four bytes.",
        "A worker has {halo} halo rows; layers have inputs of 100, 256 and 256 columns. How many megabytes does it "
        "receive and send back in an epoch with messages of {bits} bits, without quantization parameters?",
        halo=(10_000, 20_000, 5000), bits=(2, 4),
    ),
    "21.workers": one(
        "workers / 3", "Machines share the workers out evenly.",
        "{workers} workers run on three machines. What is the value of --nproc-per-node?", workers=(12, 6, 24),
    ),
    # Notebook 22: the tuner.
    "22.points": one("1", "With one bit-width for all rows, λ has no effect."),
    "22.groups": one(
        "ceil(rows / 100)", "How many groups are full? The remaining rows are one more.",
        "A worker sends {rows} rows to another worker in one layer. Group size is 100. For how many of these groups "
        "does the assigner choose a bit-width?",
        rows=(250, 430, 520),
    ),
    "22.link": one(
        "(30 + 100 / 100) / (35 + 20 / 100)",
        "Waiting shrinks to 1 ms and 0.2 ms; computation is unchanged. Which epoch is longer?",
    ),
    # Notebook 23: boundary sampling.
    "23.variance": one(
        "(1 - p) / p * (0.5 + 0.1)", "The factor is (1 - p) / p, and the variances of independent rows add up.",
        "p = {p}. A node has two halo neighbours, with α² ‖h‖² of 0.5 and 0.1. What is its aggregation's variance?",
        p=(0.25, 0.5, 0.2),
    ),
    "23.silence": one(
        "(1 - p)**neighbours", "Each of them sends nothing with probability 1 - p, independently of the others.",
        "A node has {neighbours} halo neighbours, and p = {p}. With what probability is none of them sampled?",
        p=(0.1, 0.2), neighbours=(5, 8, 3), unit="share",
    ),
    "23.bytes": one(
        "size * 0.5 * bits / 32", "Half of the rows, and each of them in bits / 32 of the bytes.",
        "Vanilla sends {size} MB per epoch in float32. How many MB does it send with p = 0.5 and rows in {bits} bits, "
        "without quantization parameters?",
        size=(40, 80, 64), bits=4,
    ),
    # Notebook 24: a GPU.
    "24.warps": one(
        "100 * floor(65536 / (ceil(registers / 8) * 8 * 256)) * 8 / 64",
        "Registers are counted in eights; a block of 256 threads then takes 256 times as many of the 65 536.",
        "A kernel uses {registers} registers per thread. What percentage of the 64 warps fits?",
        registers=(41, 33, 65), unit="percent",
    ),
    "24.bytes": one(
        "4 * columns + columns * bits / 8 + 8",
        "Four bytes per element are read; bits / 8 of one, and 8 per row, are written.",
        "A row of {columns} columns is encoded in {bits} bits, with two float32 quantization "
        "parameters. How many bytes "
        "are read and written in total, without ids?",
        columns=(256, 128), bits=(2, 4), unit="bytes",
    ),
    "24.time": one(
        "rows * 1096 / 3000e9 * 1e6", "1096 bytes per row, from exercise 2.",
        "A device copies at 3000 GB/s (reads plus writes). How many microseconds does it take, at least, to encode "
        "{rows} rows of 1096 bytes?",
        rows=(100_000, 200_000, 50_000),
    ),
    # Notebook 25: codecs by row.
    "25.middle": one(
        "62 * 0.25 / (1 + 62 * 0.25)",
        "One bit has two levels, 0 and 1. Sixty-two elements have an error of 1/2 with either.", unit="share",
    ),
    "25.normal": one(
        "pi / 2 - 1",
        "The levels are ±√(2/π), so a message has 2/π of the square; it is scaled by the inverse of that.",
        unit="share",
    ),
    "25.bytes": one(
        "columns * bits / 8 + 12 + 4 * 4", "Codes of {bits} bits, 12 bytes, and four bytes for each of four spikes.",
        "How many bytes does a row of {columns} elements in {bits} bits take with four separate "
        "spikes (and 12 bytes of "
        "parameters)?",
        columns=(256, 128, 64), bits=(2, 4), unit="bytes",
    ),
    # Notebook 26: the cost of decisions.
    "26.width": one(
        "2**floor(epoch / 10)", "Which tenth of the epochs is it? The first tenth has one bit.",
        "A plan has the bit-widths 1, 2, 4, 8, 16 and 32, ten epochs each. What is the bit-width in epoch {epoch}?",
        epoch=(25, 35, 47),
    ),
    "26.mean": one("(1 + 2 + 4 + 8 + 16 + 32) / 6", "Six bit-widths, each in a sixth of the epochs."),
    "26.share": one(
        "100 * (100 * 0.002 + ranking) / (100 * 0.05 + ranking)", "0.2 s of 5 s, and the ranking is added to both.",
        "An epoch takes 50 ms, of which deciding takes 2 ms. Ranking takes {ranking} s, once before training. What "
        "percentage of the time of 100 epochs and the ranking is deciding and ranking?",
        ranking=(1, 2, 0.5), unit="percent",
    ),
    # Notebook 27: points where rounding matters.
    "27.bytes": one(
        "rows * (32 * 4 - (32 * 2 / 8 + 8)) / 1e3",
        "Four bytes per element, instead of a quarter of one and 8 per row.",
        "A point has {rows} rows of 32 columns. In two bits a row takes 8 bytes of codes and 8 of quantization "
        "parameters. How many kB more does an epoch send with this point in float32?",
        rows=(1796, 1200, 2500),
    ),
    "27.four": one(
        "100 * (1 - share) + 100 * share / (15 / 3)**2",
        "Steps are five times finer, and variance is proportional to their square.",
        "One point causes the share {share} of the variance, with all points in two bits. It gets "
        "four bits, the others "
        "stay. What percentage of the variance is left?",
        share=(0.6, 0.5, 0.8), unit="percent",
    ),
    "27.later": one(
        "(1 + times) / 2", "Half of the epochs cost 1, the other half {times}.",
        "With one point in float32 an epoch sends {times} times the bytes. If this holds for the second half of the "
        "epochs only, by what factor do the bytes of the whole training grow?",
        times=(2.3, 3, 1.8),
    ),
    # Notebook 28: smoothed stale rows.
    "28.age": one(
        "1 / (1 - gamma)", "Σ k (1 - γ) γ^(k-1), over k = 1, 2, … That is the mean of a geometric distribution.",
        "How many epochs old are the rows in a mean of γ = {gamma}, on average? (The newest is one epoch old.)",
        gamma=(0.95, 0.9, 0.8),
    ),
    "28.start": one(
        "100 * (1 - gamma**times)", "Each time the share 1 - γ of the remaining distance is covered: how much is left?",
        "The mean starts at zero. A row that never changes has been received {times} times: what percentage of its "
        "length does the mean of γ = {gamma} have?",
        gamma=(0.95, 0.9), times=(10, 20, 5), unit="percent",
    ),
    "28.wave": one(
        "(1 - gamma) / (1 + gamma)", "The mean swings from -a to a: a = γ (-a) + (1 - γ).",
        "Rows go up in one epoch and down in the next. To what share of their amplitude does γ = {gamma} damp them?",
        gamma=(0.5, 0.6, 0.8), unit="share",
    ),
    # Notebook 29: the halo exchange of other models.
    "29.row": one(
        "100 * (columns * bits / 8 + 8) / (4 * columns)", "Codes and two floats, of {columns} floats.",
        "A row has {columns} columns. What percentage of its float32 bytes does it take in {bits} bits?",
        columns=(128, 64, 256), bits=(4, 2, 8), unit="percent",
    ),
    "29.gather": one(
        "(ranks - 1) * 100 / halo", "An all-gather receives the rows of all other ranks.",
        "Each of {ranks} ranks owns 100 rows and has {halo} halo nodes. How many times as many rows does a rank "
        "receive by an all-gather as by the halo exchange?",
        ranks=(8, 4, 16), halo=(40, 25, 50),
    ),
}  # fmt: skip
"""``notebook.name`` -> exercise."""
