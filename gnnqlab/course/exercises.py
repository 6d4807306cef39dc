"""Exercises of the course: the right answers, and hints for wrong ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, SupportsFloat

__all__ = ["EXERCISES", "Exercise", "check"]


@dataclass(frozen=True)
class Exercise:
    """Right answer of a numerical exercise, and a hint that a wrong answer prints."""

    right: float
    hint: str


EXERCISES = {
    # Notebook 01: first run.
    "01.payload": Exercise(64, "Eight bits are a byte."),
    "01.ratio": Exercise(
        1024 / 72, "Scale and zero-point are two 32-bit floats, so 64 + 8 bytes; float32 takes 4 × 256."
    ),
    "01.rows": Exercise(
        7, "Worker 1 owns 5, 6, 8 and 9. Which of them does worker 0 need now, and which does it send?"
    ),
    # Notebook 02: edge-cut of a graph.
    "02.alpha": Exercise(30**-0.5, "Count the neighbours of 4 and of 7 in the whole graph, and the node itself."),
    "02.halo": Exercise(
        16, "Go through workers 0 to 4 (nodes 0 1, 2 3, 4 5, 6 7, 8 9) and list the remote neighbours of each."
    ),
    "02.bytes": Exercise(1000 * 0.5 * 256 * 4, "The ratio is halo rows per owned node; a float32 takes four bytes."),
    # Notebook 03: one process or several workers.
    "03.loss": Exercise(0.6, "Not the mean of the two means: worker 0 has three times as many training nodes."),
    "03.alpha": Exercise(
        0.25, "Inside worker 0, node 3 has neighbours 1, 2, 4 and itself; node 1 has 0, 2, 3 and itself."
    ),
    "03.bytes": Exercise(4 * 85_000, "Gradients are summed once per epoch, on any graph: one float32 per weight."),
    # Notebook 04: messages of few bits.
    "04.step": Exercise(2, "Two bits have four levels, the marks of the ruler, with three steps between them."),
    "04.chance": Exercise(0.6, "It lies at (2.2 - Z) / S = 1.6 on the grid; which fraction is left after the 1?"),
    "04.variance": Exercise(
        0.96, "The smallest and the largest lie on levels: no error. For the third it is S² σ (1 - σ)."
    ),
    "04.bytes": Exercise(33, "100 codes of 2 bits, and two float32: scale and zero-point."),
    # Notebook 05: noise and convergence.
    "05.terms": Exercise(66, "A B + M² B + N² A, with the noises A and B and the norms M and N."),
    "05.step": Exercise(0.25, "The theorem needs α < 2 / L₂."),
    "05.bits": Exercise(25, "Q² follows S², and S = range / (2^b - 1): compare 3 steps with 15."),
    # Notebook 06: assignment of bit-widths.
    "06.beta": Exercise(1.2, "β = Σα² · D · range² / 6."),
    "06.ratio": Exercise(289, "The variance has (2^b - 1)² in the denominator: compare 15 with 255."),
    "06.time": Exercise(9, "A round takes as long as its slowest pair; rounds run one after another."),
    # Notebook 07: overlap of communication and computation.
    "07.saved": Exercise(4, "With overlap the exchange takes max(wire, central) + marginal, without it their sum."),
    "07.two": Exercise(5, "Now central nodes take longer than the wire; marginal nodes still come after both."),
    "07.bound": Exercise(4, "If all communication vanished, a quarter of the epoch would be left."),
    # Notebook 08: AdaQP.
    "08.speed": Exercise(2.5, "Of 100 ms, 25 are not communication; of the other 75 a fifth is left."),
    "08.assign": Exercise(100 * 0.4 / 5.4, "Fifty epochs take 5 s, and the assignment is added once."),
    "08.interval": Exercise(4.303 / 3**0.5, "The standard deviation is 1; t · s / √n, with n = 3."),
    # Notebook 09: more than two layers.
    "09.growth": Exercise(1.1**8, "Every layer multiplies by the same factor."),
    "09.bytes": Exercise(
        4, "Bytes per exchange are proportional to the dimension, and both models have eight exchanges."
    ),
    "09.messages": Exercise(
        15, "In the forward pass every layer sends; in the backward pass the input features need no gradient."
    ),
    # Notebook 10: SYLVIE's bit-widths over time.
    "10.importance": Exercise(0.75, "Count the nodes with a smaller in-degree, and those smaller than the largest."),
    "10.mean": Exercise(2.625, "Half get 1 bit, a quarter 2, an eighth 4 and an eighth 8."),
    "10.decision": Exercise(4, "The rate is lower than δ epochs before: training slows down, so more bits."),
    # Notebook 11: stale rows.
    "11.stale": Exercise(0.8, "Four stale epochs, then a fresh one, and so on."),
    "11.speed": Exercise(1.25, "Vanilla adds them up; PipeGCN takes the longer of the two."),
    "11.both": Exercise(10, "2 bits instead of 32: 2.5 ms. Which is the longer of the two now?"),
    # Notebook 12: vertex-cuts.
    "12.held": Exercise(12, "Every leaf is on the worker of its one edge; the hub is on all three."),
    "12.rows": Exercise(
        4, "The hub has one master and two mirrors. What does each mirror send, and what does it receive?"
    ),
    "12.tiers": Exercise(
        1100 / 750, "Before: 100 + 10 · 100. After: 1.5 times as many inner rows, and 0.6 times as many outer ones."
    ),
    # Notebook 13: CDFGNN's cache.
    "13.moved": Exercise(0.25, "The largest change is 0.5; the largest element of the current row is 2."),
    "13.bound": Exercise(0.5, "The largest value is clamped by a whole step: range / 2^B, with B = 4."),
    "13.epsilon": Exercise(0.0525, "A gain in accuracy relaxes ε: take the smaller of 1.05 ε and ε + 0.01."),
    # Notebook 14: links within and between hosts.
    "14.busiest": Exercise(400, "40 MB at 2 GB/s and 10 MB at 25 MB/s are sent at the same time: which takes longer?"),
    "14.factor": Exercise(
        400 / 280, "Between hosts, 0.7 of 400 ms. How long does the part within a host take, which was 20 ms?"
    ),
    "14.bits": Exercise(100, "A quarter of 10 MB is left between the hosts. Does it still take longer?"),
    # Notebook 15: TANGO's integer products.
    "15.code": Exercise(63.5, "s = 3 / 127, and noise rounds 1.5 / s up with the probability of its fraction."),
    "15.odds": Exercise(math.exp(0.7), "The odds of two classes are e to the difference of their logits."),
    "15.bytes": Exercise(1024 / 260, "256 floats of four bytes; 256 codes of one byte and one float32 scale per row."),
    # Notebook 16: models of DGL.
    "16.whole": Exercise(1 / (0.4 + 0.6 / 2.5), "Four tenths of the epoch stay as they are, the rest shrinks by 2.5."),
    "16.reuse": Exercise(400 / 15, "Three products and three quantizations, or three products and one."),
    "16.area": Exercise(0.75, "Four pairs of an edge and a non-edge: in how many does the edge score higher?"),
    # Notebook 17: all systems compared.
    "17.broadcast": Exercise(
        75_000, "Every worker receives the blocks of the 15 others: each block is sent to 15 workers."
    ),
    "17.even": Exercise(9, "A halo exchange sends Ω rows and a broadcast (P - 1) n: which P makes them equal?"),
    "17.memory": Exercise(8, "It holds its own rows and, at any time, those of one other worker: two eighths."),
    # Notebook 18: predictions for larger clusters.
    "18.ring": Exercise(2 * 63 / 64 * 4e6 / 1.25e9 * 1e3, "2 (P - 1) / P of them cross each link: 1.25 GB/s."),
    "18.turns": Exercise(99.99, "2 (P - 1) messages, one after another."),
    "18.crossing": Exercise(
        184, "The bytes saved must take longer than 4 ms on the wire: 92 MB, and a byte has 8 bits."
    ),
    "18.amdahl": Exercise(
        30, "Eight times as many workers: one part of the epoch shrinks to an eighth, the other does not."
    ),
    # Notebook 19: errata of the papers.
    "19.codes": Exercise(5, "The largest code is 2^4 = 16, and 0 is a code too: how many bits does 16 need?"),
    "19.product": Exercise(6, "(1/6)(1/6) = 1/36; how many times 1/36 is 1/6?"),
    "19.bytes": Exercise(2.5 / 1.45, "Compare 2.50 bits per element with the 1.45 that Table XII implies."),
    # Notebook 20: a system of one's own.
    "20.variance": Exercise(3, "Each element has |x| (s - |x|), with s = 4; 4 and 0 are sent exactly."),
    # Notebook 21: a graph of one's own.
    "21.bytes": Exercise(
        10_000 * 4 * (612 + 512) / 1e6,
        "Rows of 100, 256 and 256 columns are received; gradients of all but the first are sent back.",
    ),
    "21.bits": Exercise(10_000 * (612 + 512) / 4 / 1e6, "Two bits are a quarter of a byte; a float32 has four bytes."),
    "21.workers": Exercise(4, "Machines share the workers out evenly."),
    # Notebook 22: the tuner.
    "22.points": Exercise(1, "With one bit-width for all rows, λ has no effect."),
    "22.groups": Exercise(3, "Two groups are full; the remaining rows are a third."),
    "22.link": Exercise(
        31 / 35.2, "Waiting shrinks to 1 ms and 0.2 ms; computation is unchanged. Which epoch is longer?"
    ),
    # Notebook 23: boundary sampling.
    "23.variance": Exercise(1.8, "(1 - p) / p is 3, and the variances of independent rows add up."),
    "23.silence": Exercise(0.9**5, "Each of them sends nothing with probability 0.9, independently of the others."),
    "23.bytes": Exercise(2.5, "Half of the rows, and each of them in an eighth of the bytes."),
    # Notebook 24: a GPU.
    "24.warps": Exercise(62.5, "41 counts as 48; a block of 256 threads then takes 12 288 of the 65 536 registers."),
    "24.bytes": Exercise(
        1024 + 64 + 8, "Four bytes per element are read; a quarter of one, and 8 per row, are written."
    ),
    "24.time": Exercise(109_600_000 / 3000e9 * 1e6, "1096 bytes per row, from exercise 2."),
    # Notebook 25: codecs by row.
    "25.middle": Exercise(
        15.5 / 16.5, "One bit has two levels, 0 and 1. Sixty-two elements have an error of 1/2 with either."
    ),
    "25.normal": Exercise(
        math.pi / 2 - 1,
        "The levels are ±√(2/π), so a message has 2/π of the square; it is scaled by the inverse of that.",
    ),
    "25.bytes": Exercise(64 + 12 + 16, "Codes of 2 bits, 12 bytes, and four bytes for each of four spikes."),
    # Notebook 26: the cost of decisions.
    "26.width": Exercise(4, "Which tenth of the epochs is it? The first tenth has one bit."),
    "26.mean": Exercise(10.5, "Six bit-widths, each in a sixth of the epochs."),
    "26.share": Exercise(20, "0.2 s of 5 s, and 1 s is added to both."),
    # Notebook 27: points where rounding matters.
    "27.bytes": Exercise(1796 * (128 - 16) / 1e3, "Four bytes per element, instead of a quarter of one and 8 per row."),
    "27.four": Exercise(40 + 60 / 25, "Steps are five times finer, and variance is proportional to their square."),
    "27.later": Exercise(1.65, "Half of the epochs cost 1, the other half 2.3."),
    # Notebook 28: smoothed stale rows.
    "28.age": Exercise(20, "Σ k · 0.05 · 0.95^(k-1), over k = 1, 2, … That is the mean of a geometric distribution."),
    "28.start": Exercise(
        100 * (1 - 0.95**10), "Each time 5 % of the remaining distance is covered: how much is left after ten?"
    ),
    "28.wave": Exercise(1 / 3, "The mean swings from -a to a: a = γ (-a) + (1 - γ). Or the equation, with T = 2."),
}
"""``notebook.name`` -> exercise."""


def check(name: str, answer: Any) -> None:
    """Check the answer to an exercise, to one percent; print "Right", or a hint.

    Args:
        name: key of `EXERCISES`.
        answer: a number, or ``None`` for none yet.

    Raises:
        ValueError: if there is no such exercise.

    Example:
        >>> check("01.payload", None)
        Put your answer in place of None and run the cell again.
        >>> check("01.payload", 512)
        Not yet, 512 is not it. Eight bits are a byte.
        >>> check("01.payload", 64)
        Right: 64.
        >>> check("01.payload", "64 bytes")
        Not yet, '64 bytes' is no number. Write it without quotes and units.
    """
    if name not in EXERCISES:
        raise ValueError(f"an exercise must be one of {sorted(EXERCISES)}, got {name!r}")
    exercise = EXERCISES[name]
    # None is the placeholder in the notebook: no answer yet, not a wrong one.
    if answer is None:
        print("Put your answer in place of None and run the cell again.")
    elif isinstance(answer, str) or not isinstance(answer, SupportsFloat):
        print(f"Not yet, {answer!r} is no number. Write it without quotes and units.")
    elif math.isclose(answer, exercise.right, rel_tol=0.01):  # one percent, so that answers may be rounded
        print(f"Right: {exercise.right:.6g}.")
    else:
        print(f"Not yet, {answer:g} is not it. {exercise.hint}")
