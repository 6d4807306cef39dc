"""Exercises of notebooks 01 to 11: formula, second hint, and the text with other numbers."""

from __future__ import annotations

from gnnqlab.course.numeric.exercise import Exercise
from gnnqlab.course.numeric.exercise import exercise as one

__all__ = ["ON_MESSAGES"]

ON_MESSAGES: dict[str, Exercise] = {
    # Notebook 01: first run.
    "01.payload": one(
        "columns * bits / 8", "Eight bits are a byte.",
        "A row has {columns} values. How many bytes is its payload (the codes alone) in {bits} bits?",
        columns=(256, 128, 192, 320), bits=(2, 4), unit="bytes",
    ),
    "01.ratio": one(
        "4 * columns / (columns * bits / 8 + 8)",
        "Scale and zero-point are two 32-bit floats, 8 bytes on top of the codes; float32 takes 4 × {columns}.",
        "A row of {columns} values in {bits} bits, with its quantization parameters: by what factor is it smaller than "
        "in float32?",
        columns=(256, 128, 192, 320), bits=(2, 4),
    ),
    "01.rows": one(
        "rows_if_moved(node, graph)",
        "List, for each worker, its nodes with a neighbour on the other one. Each of them is sent once.",
        "In your graph of ten nodes, how many rows would be sent in total if node {node} belonged to the other "
        "worker?",
        node=(7, 3, 2, 6), graph=(0, 1, 2, 3),
    ),
    # Notebook 02: edge-cut of a graph.
    "02.alpha": one(
        "1 / (degree(4, graph) * degree(node, graph))**0.5",
        "Count the neighbours of 4 and of {node} in the whole graph, and the node itself.",
        "Your graph of ten nodes, a GCN: what is α between 4 and {node}, the weight of 4's row in {node}'s sum?",
        node=(7, 2, 3), graph=(0, 1, 2, 3),
    ),
    "02.halo": one(
        "rows_in_blocks(workers, graph)",
        "Go through the workers one after another and list the remote neighbours of each.",
        "{workers} workers own contiguous blocks of your ten nodes, as course.Halves() cuts them. How many rows are "
        "sent in total?",
        workers=(5, 3, 4), graph=(0, 1, 2, 3),
    ),
    "02.bytes": one(
        "nodes * 0.5 * columns * 4", "The ratio is halo rows per owned node; a float32 takes four bytes.",
        "{nodes} nodes, half a halo row per owned node, rows of {columns} floats. How many bytes does one forward "
        "exchange send?",
        nodes=(1000, 1200, 3000), columns=(256, 128), unit="bytes",
    ),
    # Notebook 03: one process or several workers.
    "03.loss": one(
        "(many * 0.5 + few * 0.9) / (many + few)",
        "Not the mean of the two means: worker 0 has more training nodes.",
        "Worker 0 has {many} training nodes with a mean loss of 0.5, worker 1 has {few} with 0.9. What is the loss of "
        "the whole graph?",
        many=(30, 50, 70), few=(10, 20),
    ),
    "03.alpha": one(
        "1 / (4 * 4)**0.5", "Inside worker 0, node 3 has neighbours 1, 2, 4 and itself; node 1 has 0, 2, 3 and itself."
    ),
    "03.bytes": one(
        "4 * weights", "Gradients are summed once per epoch, on any graph: one float32 per weight.",
        "A model has {weights} weights: how many bytes of gradients does one worker contribute per epoch?",
        weights=(85_000, 62_000, 120_000), unit="bytes",
    ),
    # Notebook 04: messages of few bits.
    "04.step": one(
        "(high - -1) / (2**bits - 1)", "The levels are the marks of the ruler; there is one step fewer than levels.",
        "Encode the row (−1, 2.2, {high}) in {bits} bits. What is the step S?",
        high=(5, 8, 6.5), bits=(2, 4),
    ),
    "04.chance": one(
        "(middle - -1) / 2 - 1", "It lies at ({middle} - Z) / S on the grid; which fraction is left after the 1?",
        "Encode the row (−1, {middle}, 5) in two bits. With what probability does the middle value get code 2?",
        middle=(2.2, 2.5, 1.6), unit="share",
    ),
    "04.variance": one(
        "2**2 * ((middle - -1) / 2 - 1) * (2 - (middle - -1) / 2)",
        "The smallest and the largest lie on levels: no error. For the third it is S² σ (1 - σ).",
        "Encode the row (−1, {middle}, 5) in two bits. What is the exact variance of the whole row?",
        middle=(2.2, 2.5, 1.3),
    ),
    "04.bytes": one(
        "columns * bits / 8 + 8", "{columns} codes of {bits} bits, and two float32: scale and zero-point.",
        "How many bytes does a row of {columns} values take in {bits} bits, including its quantization parameters?",
        columns=(100, 120, 200), bits=(2, 4), unit="bytes",
    ),
    # Notebook 05: noise and convergence.
    "05.terms": one(
        "A * B + M**2 * B + N**2 * A", "A B + M² B + N² A, with the noises A and B and the norms M and N.",
        "One node, A = {A}, B = {B}, M = {M}, N = {N}. What is Q?",
        A=(6, 4, 5), B=(6, 3), M=1, N=(2, 3),
    ),
    "05.step": one(
        "2 / L", "The theorem needs α < 2 / L₂.", "The loss has L₂ = {L}. Below which step does Theorem 2 hold?",
        L=(8, 5, 10),
    ),
    "05.bits": one(
        "((2**wide - 1) / (2**narrow - 1))**2",
        "Q² follows S², and S = range / (2^b - 1): compare the steps of {narrow} bits with those of {wide}.",
        "By what factor does the noise term of the theorem fall from {narrow} to {wide} bits?",
        narrow=(2, 1), wide=(4, 8),
    ),
    # Notebook 06: assignment of bit-widths.
    "06.beta": one(
        "use * columns * 3**2 / 6", "β = Σα² · D · range² / 6.",
        "A row has {columns} values and a range of 3. Its receiver uses it with Σα² = {use}. What is its β?",
        columns=(16, 32, 64), use=(0.05, 0.1),
    ),
    "06.ratio": one(
        "((2**wide - 1) / (2**narrow - 1))**2", "The variance has (2^b - 1)² in the denominator.",
        "How many times more variance does the same row add in {narrow} bits than in {wide}?",
        narrow=(4, 2), wide=8,
    ),
    "06.time": one(
        "max(3, one) + max(2, two)", "A round takes as long as its slowest pair; rounds run one after another.",
        "An exchange has two rounds. In the first, pairs take 3 and {one} ms, in the second 2 and {two} ms. How long "
        "does it take?",
        one=(5, 7, 6), two=(4, 6),
    ),
    # Notebook 07: overlap of communication and computation.
    "07.saved": one(
        "min(10, central)", "With overlap the exchange takes max(wire, central) + marginal, without it their sum.",
        "An exchange takes 10 ms on the wire; central nodes take {central} ms and marginal nodes 1 ms. How many "
        "milliseconds does overlap save?",
        central=(4, 3, 6),
    ),
    "07.two": one(
        "max(1, central) + marginal", "Which takes longer, central nodes or the wire? Marginal nodes come after both.",
        "The wire takes 1 ms, central nodes {central} ms, marginal nodes {marginal} ms. How long does the overlapped "
        "exchange take?",
        central=(4, 3, 6), marginal=(1, 2),
    ),
    "07.bound": one(
        "1 / (1 - share)", "If all communication vanished, which share of the epoch would be left?",
        "Vanilla spends the share {share} of an epoch on communication. What is the largest possible speed-up?",
        share=(0.75, 0.8, 0.6),
    ),
    # Notebook 08: AdaQP.
    "08.speed": one(
        "100 / (100 - 0.8 * sending)", "Which part is not communication? A fifth of the other part is left.",
        "Vanilla takes 100 ms per epoch, {sending} of them communication. A system saves 80 % of these and adds no "
        "cost. What is its speed-up?",
        sending=(75, 60, 50),
    ),
    "08.assign": one(
        "100 * stop / (stop + 50 * 0.1)", "Fifty epochs take 5 s, and the assignment is added once.",
        "Epochs take 0.1 s. Training stops for {stop} s every 50 epochs. What percentage of the wall-clock time is "
        "this?",
        stop=(0.4, 0.6, 1), unit="percent",
    ),
    "08.interval": one("4.303 * 1 / 3**0.5", "The standard deviation is 1; t · s / √n, with n = 3."),
    # Notebook 09: more than two layers.
    "09.growth": one(
        "growth**layers", "Every layer multiplies by the same factor.",
        "Every layer multiplies the relative error by {growth}. By what factor has an error of the first layer grown "
        "after {layers} more layers?",
        growth=(1.1, 1.2, 1.05), layers=(8, 6),
    ),
    "09.bytes": one(
        "features / 16", "Bytes per exchange are proportional to the dimension, and both models have eight exchanges.",
        "Two models of 8 layers: one sends rows of {features} features, the other rows of 16 "
        "classes. How many times as "
        "many float32 bytes does the first send?",
        features=(64, 128, 96),
    ),
    "09.messages": one(
        "2 * layers - 1",
        "In the forward pass every layer sends; in the backward pass the input features need no gradient.",
        "Every layer of a GCN of {layers} layers exchanges rows forward; all but the first "
        "exchange gradients backward. "
        "How many exchanges has an epoch?",
        layers=(8, 6, 12),
    ),
    # Notebook 10: SYLVIE's bit-widths over time.
    "10.importance": one("3 / 4", "Count the nodes with a smaller in-degree, and those smaller than the largest."),
    "10.mean": one(
        "0.5 * 1 + 0.25 * 2 + 0.125 * 4 + 0.125 * 8", "Half get 1 bit, a quarter 2, an eighth 4 and an eighth 8."
    ),
    "10.decision": one(
        "base * 2", "The rate is lower than δ epochs before: training slows down, so more bits.",
        "The base is {base}. The loss falls by 0.3 per second; δ epochs ago it fell by 0.5 per "
        "second. What is the next "
        "base?",
        base=(2, 1, 4),
    ),
    # Notebook 11: stale rows.
    "11.stale": one(
        "limit / (limit + 1)", "{limit} stale epochs, then a fresh one, and so on.",
        "At most {limit} consecutive epochs may be stale, and only this limit makes an epoch fresh. What share of all "
        "epochs is stale in the long run?",
        limit=(4, 3, 9), unit="share",
    ),
    "11.speed": one(
        "(compute + 40) / max(compute, 40)", "Vanilla adds them up; PipeGCN takes the longer of the two.",
        "An epoch computes for {compute} ms, and its transfers take 40 ms. How long is an epoch of "
        "Vanilla, without any "
        "overlap, divided by one of PipeGCN?",
        compute=(10, 20, 60),
    ),
    "11.both": one(
        "max(compute, 40 * bits / 32)", "{bits} bits instead of 32. Which is the longer of the two now?",
        "An epoch computes for {compute} ms, and its float32 transfers take 40 ms. Pipelined, with messages in {bits} "
        "bits: how many ms does it take?",
        compute=(10, 8, 12), bits=(2, 4),
    ),
}  # fmt: skip
"""``notebook.name`` -> exercise."""
