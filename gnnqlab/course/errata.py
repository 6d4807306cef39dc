"""Differences between the papers, their own text and their released code, and the rule that gnnqlab follows.

The texts are data; the *effects* of the differences are measured here, by the functions of
`gnnqlab.course.experiments.errata_measured` and `errata_systems`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gnnqlab.course.experiments.errata_systems import MEASUREMENTS

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["ERRATA", "Erratum", "errata"]


@dataclass(frozen=True)
class Erratum:
    """One difference."""

    id: str
    source: str
    """Paper and equation, or released code."""
    difference: str
    """The difference, in one sentence."""
    rule: str
    """Rule that gnnqlab follows."""


def errata(*, measure: bool = True) -> DataFrame:
    """Return every difference between the papers, and between paper and released code, with its effect.

    Args:
        measure: compute the effects; takes a few seconds in the first call, later calls use a cache.

    Returns:
        One row each, index ``id``; columns ``where, what, effect, measured, rule``. ``effect`` is text computed here
        where ``measured`` is true, else ``not measured``.

    Example:
        >>> table = errata(measure=False)
        >>> table.loc["AQ-14", "where"]
        'AdaQP Eqs. 9, 28'
    """
    import pandas as pd

    rows = []
    # The effect is computed only on demand: each measurement trains or encodes something small.
    for entry in ERRATA:
        is_measured = measure and entry.id in MEASUREMENTS
        effect = MEASUREMENTS[entry.id]().text if is_measured else "not measured"
        rows.append((entry.id, entry.source, entry.difference, effect, is_measured, entry.rule))
    return pd.DataFrame(rows, columns=["id", "where", "what", "effect", "measured", "rule"]).set_index("id")


ERRATA = tuple(
    Erratum(*fields)
    for fields in (
        # AdaQP.
        (
            "AQ-1",
            "AdaQP Eq. 11, released code",
            "the code weighs β with (Σα)², the paper with Σα²",
            "Σα², as in the paper; AQ-17 compares the assumptions of the two",
        ),
        (
            "AQ-2",
            "released code of AdaQP and EXACT",
            "scale and zero-point are rounded to bfloat16 after codes were computed with float32 ones",
            "round zero-point down and scale up first, encode with the rounded ones; or send float32",
        ),
        (
            "AQ-3",
            "released code of AdaQP",
            "no clamp at the top: rounding can give 2^b, which overflows into the next code",
            "codes never exceed 2^b - 1",
        ),
        (
            "AQ-4",
            "AdaQP Eq. 4, released code",
            "a constant row has range 0, which gives 0 · ∞",
            "S = 0, codes 0; decodes exactly",
        ),
        (
            "AQ-5",
            "released code of AdaQP",
            "one GPU thread per feature and unchecked launches: rows of more than 1024 features cannot run",
            "tiles over the columns, every launch checked",
        ),
        ("AQ-6", "released code of AdaQP", "each buffer is one byte too long", "exactly the bytes of the format"),
        (
            "AQ-7",
            "released code of AdaQP",
            "evaluation passes are traced too, so β mixes two distributions",
            "training passes only",
        ),
        (
            "AQ-8",
            "released code of AdaQP",
            "the cost model is fitted to one sample per size; its intercept may turn negative",
            "at least five timed transfers per size, medians, non-negative fit",
        ),
        (
            "AQ-9",
            "released code of AdaQP",
            "the last group is charged as if full; utopia takes the minimum over devices, nadir the maximum",
            "true group sizes, the maximum in both",
        ),
        (
            "AQ-10",
            "released code of AdaQP",
            "aggregation scores are cached per graph, so GraphSAGE silently gets GCN's",
            "cached by content",
        ),
        ("AQ-11", "released code of AdaQP", "directed graphs fail under overlap", "tested"),
        (
            "AQ-12",
            "AdaQP, PipeGCN, BNS-GCN code",
            "some re-send static layer-0 features in every epoch, others cache them: no fair comparison",
            "one policy for all systems of a comparison, recorded",
        ),
        (
            "AQ-13",
            "released code of AdaQP",
            "epoch time excludes evaluation and assignment; seeds come from the clock",
            "wall-clock time includes everything; fixed seeds",
        ),
        (
            "AQ-14",
            "AdaQP Eqs. 9, 28",
            "the product term divides by 6 where Eq. 27 gives (1/6)(1/6) = 1/36",
            "1/36; as_printed=True gives the printed factor",
        ),
        (
            "AQ-15",
            "AdaQP Theorem 1",
            "D S²/6 is called the variance; it is the average over uniform fractions",
            "exact S² Σσ(1-σ), the average and the worst case D S²/4 are all given",
        ),
        (
            "AQ-16",
            "AdaQP Table 6",
            "adaptive and uniform bits differ by less than a standard deviation in all rows",
            "gradient variance measured, accuracy with intervals",
        ),
        (
            "AQ-17",
            "AdaQP Eq. 25",
            "variances are added over rows as if independent, but the rows of a worker use the same decoded message",
            "a second bound, with (Σα)² in the term of shared messages, is given next to Theorem 3's",
        ),
        (
            "AQ-18",
            "AdaQP Theorem 3, proof",
            "activations are ignored; noise flips ReLU's derivative for a share of elements that grows with S",
            "measured with ReLU and with a smooth activation, both shown",
        ),
        (
            "AQ-19",
            "AdaQP Assumption A.3",
            "the gradient is assumed unbiased; messages are, but they pass through ReLU, norms and softmax",
            "bias measured, with its standard error",
        ),
        (
            "AQ-20",
            "AdaQP Assumption A.4, Eq. 19",
            "E||g - g̃|| <= Q is assumed, the stronger E||g - g̃||² <= Q² is used",
            "Q² is the second moment, the sum of Theorem 3's Q^l",
        ),
        (
            "AQ-21",
            "AdaQP Theorem 2, Table 8",
            "the theorem is about gradient descent with a fixed step, training uses Adam",
            "checked with plain gradient descent",
        ),
        (
            "AQ-22",
            "AdaQP's slides, Eq. 12",
            "the constraint omits θ of the links: every byte takes the same time, on any link",
            "θ of each link, as in the paper",
        ),
        (
            "AQ-23",
            "AdaQP sections 5.1 and 5.5",
            "gains of up to 0.19 points are attributed to noise that regularises; none has an interval over seeds",
            "a gain counts only if its interval excludes zero; none did here",
        ),
        (
            # SYLVIE.
            "SY-1",
            "SYLVIE section V-A, Eq. 5",
            "the descent rate (F_t - F_{t-1})/time is negative while the loss falls; the rule treats it as positive",
            "descent = (F_{t-1} - F_t)/time",
        ),
        (
            "SY-2",
            "SYLVIE section IV-A, Table XII",
            "the importance mask has no thresholds; Table XII implies 1.45 bits per element, halves give 2.1 at least",
            "thresholds are a setting, halves by default; quarters reproduce Table XII",
        ),
        (
            "SY-3",
            "SYLVIE Eq. 5, Tables X, XI and XII",
            "Table X implies many bits at the end, as in the text, Table XII few bits throughout, as in the formula",
            "both readings, the text's by default; no reading reproduces all tables",
        ),
        (
            "SY-4",
            "SYLVIE Table X",
            "fixed 4 bits (0.37 s, 65.1 %) beat adaptive bits (0.39 s, 65.0 %) in time and accuracy",
            "every comparison includes fixed bit-widths next to adaptive ones",
        ),
        (
            "SY-5",
            "SYLVIE section VI-A, Table VII",
            "a speed-up of 8.67 to 16.03 in the text is 7.56 to 17.18 in the table",
            "the values of the table",
        ),
        (
            "SY-6",
            "SYLVIE section V-A",
            "L_t is the unweighted mean of the workers' losses: not the training loss where parts are uneven",
            "the loss over all training nodes",
        ),
        (
            "SY-7",
            "SYLVIE section IV-A",
            "the aggregation error is said to have a mean that grows with √d; with unbiased rounding its mean is zero",
            "importance by in-degree as published; a test confirms the zero mean",
        ),
        (
            # PipeGCN.
            "PI-2",
            "PipeGCN's released code, compared with others'",
            "the receiver applies dropout to halo rows; in other code the owner applies it before sending",
            "the receiver, wherever rows are reused over epochs; with the owner's mask of that epoch",
        ),
        (
            # CDFGNN.
            "CD-1",
            "CDFGNN Eq. 22",
            "the largest value maps to code 2^B, one past B bits",
            "clamped; the error of the clamp is given",
        ),
        (
            "CD-2",
            "CDFGNN Alg. 2 with Eqs. 22, 23",
            "deltas are quantized, but the sender's cache then holds the unquantized value",
            "sender and receivers cache the decoded value",
        ),
        (
            "CD-3",
            "CDFGNN Eqs. 6, 7",
            "the equation loosens ε when accuracy falls, the prose says the opposite; constants disagree too",
            "both readings, the prose by default; under the equation accuracy that was lost can stay lost (measured)",
        ),
        (
            "CD-4",
            "CDFGNN Alg. 2 with section 5",
            "Algorithm 2 scatters totals, section 5 quantizes differences",
            "differences of totals, decoded on both sides",
        ),
        (
            "CD-5",
            "CDFGNN Eq. 18",
            "the proof drops -(η - ρη²)<∇L, Δ> and writes W + η∇L̃, which is ascent",
            "given with the term; W - η∇L̃",
        ),
        (
            "CD-6",
            "CDFGNN after Eq. 21",
            "the gradient is said to vanish for N -> ∞, although Δ does not",
            "convergence to a neighbourhood of size mean ||Δ||², not to zero",
        ),
        (
            "CD-7",
            "CDFGNN Eq. 24",
            "a host counts if it has any copy; a node's first edges place it by chance, and soon all hosts have one",
            "a node's home, where most of its edges lay in the pass before, counts too; the printed rule is a setting",
        ),
        (
            "CD-8",
            "CDFGNN Alg. 2",
            "a total is sent if a partial sum of it moved, though the total may not have; partial sums below ε are not "
            "added, so that the total of P copies may be off by the changes of all of them",
            'as printed; totals="moved" always adds the master\'s partial sum, and sends totals that moved themselves',
        ),
        (
            # TANGO.
            "TG-1",
            "released code of TANGO",
            "rounds to nearest everywhere; the paper says stochastic",
            "stochastic",
        ),
        (
            "TG-2",
            "released code of TANGO",
            "the backward sparse product uses the forward tensor's scale",
            "its own scale, tested",
        ),
        (
            "TG-3",
            "released code of TANGO",
            "node-classification scripts stop the clock before the backward pass",
            "the clock includes the backward pass",
        ),
        (
            "TG-4",
            "TANGO Eqs. 1, 3, 4",
            "codes of the printed range and scale reach ±127.5; an all-zero tensor has scale 0; the relative error "
            "leaves [0, 1] for small negative elements",
            "max / 127, an explicit case for scale 0, magnitudes in Eq. 4",
        ),
        (
            "TG-5",
            "TANGO sections 3.2 and 3.3",
            "inputs of a softmax must be full precision in 3.2; the attention logits are quantized in 3.3",
            "full precision, as 3.2 argues; exact_logits=False rounds them",
        ),
        (
            "TG-6",
            "TANGO sections 1 and 4",
            "the loss of 9.7 % in Test1 is relative, not in points; Fig. 8 is time to equal accuracy; the speed-up of "
            "SPMM comes from incidence and multi-head sums, not from int8 rows",
            "points and relative losses are reported separately, and equal quantities compared",
        ),
        (
            # SANCUS and CAGNET.
            "SA-1",
            "released code of SANCUS",
            "cache flags are set and then all cleared; weights are drawn from U(0, 1)",
            "the paper's staleness rule",
        ),
        (
            "SA-2",
            "released code of SANCUS and CAGNET",
            "each worker averages its own loss, and gradients are summed: a worker with few training nodes "
            "weighs as much as one with many",
            "a sum over training nodes, divided by their number in the whole graph, as for all systems",
        ),
        (
            "SA-3",
            "SANCUS's text and its released code",
            "in the text only *other* workers use a cached block; in the code its owner uses the cached block too",
            "the owner uses its own current rows",
        ),
        (
            "SA-4",
            "released code of SANCUS and CAGNET",
            "gradients reuse the blocks of the forward matrix, which is right for symmetric matrices only",
            "rows of the transpose, stored in addition to those of the matrix",
        ),
        (
            # BNS-GCN, and PipeGCN's measurements.
            "BN-1",
            "released code of BNS-GCN",
            "attention inputs are scaled by 1/p, which distorts the softmax",
            "rescaled inside the softmax",
        ),
        ("BN-2", "released code of BNS-GCN", "int(p n) = 0 sampled rows divide by zero", "handled"),
        (
            "PI-1",
            "released code of PipeGCN",
            "communication time counts exposed waiting only; epoch 0 aggregates zeros",
            "both times recorded, the first epoch is synchronous",
        ),
    )
)
"""Every known difference, paper by paper."""
