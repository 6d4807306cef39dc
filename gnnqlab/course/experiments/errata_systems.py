"""Measured effects of errata in SYLVIE, CDFGNN and TANGO: more entries of ``MEASUREMENTS``."""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.bits.in_words import human_bits
from gnnqlab.bits.orchestrator import by_importance
from gnnqlab.compute import Int8Products
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.course.experiments.errata_measured import (
    MEASUREMENTS,
    Effect,
    decoded_errors,
    in_standard_errors,
    measures,
)
from gnnqlab.course.experiments.host_connections import saved_by_homes
from gnnqlab.course.experiments.moving_widths import replay
from gnnqlab.course.experiments.sylvie_readings import BITS_XII, MASKS, readings
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.theory.cache import cache_bound

__all__ = ["MEASUREMENTS"]


@measures("SY-1")
def sign_of_the_descent_rate() -> Effect:
    """Run SYLVIE's rule for 60 epochs on a loss that falls more and more slowly, with either sign."""
    losses = [0.2 + 0.9**epoch for epoch in range(61)]  # levels off: the true descent rate falls to zero
    seconds = [1.0] * len(losses)
    figures = {
        name: float(replay(losses, seconds, as_printed=as_printed)["base"].iloc[-1])
        for name, as_printed in (("written", True), ("descent", False))
    }
    return Effect(
        f"on a loss that levels off the rule as written ends at {human_bits(figures['written'])}, with the other "
        f"sign at {figures['descent']:.0f}; the prose requires more bits",
        figures,
    )


@measures("SY-2")
def mask_without_thresholds() -> Effect:
    """Compute the mean bit-width for the smallest base and uniform importance, by thresholds."""
    p = torch.arange(4096) / 4096  # uniform importance in [0, 1)
    # base 1, the smallest
    figures = {name: float(by_importance(p, 1, (1, 2, 4, 8), each).double().mean()) for name, each in MASKS.items()}
    return Effect(
        f"with base 1 and uniform importance, halves give {figures['halves']:.2f} bits per element, quarters "
        f"{figures['quarters']:.2f}; Table XII implies {BITS_XII}",
        figures,
    )


@measures("SY-3")
def tables_of_two_readings() -> Effect:
    """Apply each reading to a loss that levels off smoothly, and compare the result with Tables X, XI and XII."""
    # 1000 epochs that level off, and uniform importance
    table = readings([0.2 + 0.97**epoch for epoch in range(1000)], torch.arange(4096) / 4096)
    max_tables = int(table[["X", "XI", "XII"]].sum(axis=1).max())  # tables reproduced by the best reading
    text_row, printed_row = table.loc[("text", "halves")], table.loc[("printed", "quarters")]
    figures = {
        "most": float(max_tables),
        "text_bits": float(text_row["bits"]),
        "printed_bits": float(printed_row["bits"]),
    }
    return Effect(
        f"on a loss that levels off for 1000 epochs the text with halves sends {text_row['bits']:.2f} bits per "
        f"element, the formula with quarters {printed_row['bits']:.2f} (Table XII: {BITS_XII}); of Tables X, XI and "
        f"XII no reading reproduces more than {max_tables}",
        figures,
    )


@measures("CD-1")
def one_code_too_many() -> Effect:
    """Compute the code of a row's largest value when a step is range / 2^B."""
    rows_KD = _normal(200, 64)
    range_K = rows_KD.amax(1) - rows_KD.amin(1)
    # code of the maximum: range / S with S = range / 2^B
    top = {bits: float(torch.round(range_K / (range_K / 2**bits)).max()) for bits in (4, 8)}
    return Effect(
        f"the largest code is {top[8]:.0f} at B = 8 and {top[4]:.0f} at B = 4: {int(top[8]).bit_length()} and "
        f"{human_bits(int(top[4]).bit_length())}",
        {f"top_{bits}": code for bits, code in top.items()},
    )


@measures("CD-7")
def homes_of_nodes() -> Effect:
    """Measure the inter-host connections saved on 2 x 4 workers, with and without homes."""
    figures = saved_by_homes()
    return Effect(
        f"of a worker's inter-host connections {100 * figures['copies']:.0f} % are saved as printed, "
        f"{100 * figures['home']:.0f} % with homes",
        figures,
    )


@measures("SY-7")
def mean_error_of_a_sum() -> Effect:
    """Average the 1-bit errors of d neighbours' rows in many draws, and compare the mean over draws with zero."""
    figures: dict[str, float] = {}
    for degree in (4, 64):
        # independent rows per degree
        rows_KD = torch.randn(degree, 32, generator=torch.Generator().manual_seed(degree))
        sums_ED = decoded_errors(rows_KD, 1, "float32").mean(1)  # error of the mean over neighbours, (draws, D)
        figures[f"size_{degree}"] = float(sums_ED.square().mean().sqrt())
        figures[f"mean_{degree}"] = in_standard_errors(sums_ED)
    return Effect(
        f"with 4 and 64 neighbours in 1 bit the sum's mean error is {figures['mean_4']:.2f} and "
        f"{figures['mean_64']:.2f} of its standard error (1 if unbiased); its size falls from "
        f"{figures['size_4']:.2f} to {figures['size_64']:.2f}",
        figures,
    )


def _linear(rows: torch.Tensor, bits: int) -> torch.Tensor:
    # CDFGNN Eq. 22: 2^B steps over the range, and the largest code clamped to 2^B - 1.
    minimum = rows.amin()
    step = (rows.amax() - minimum) / 2**bits
    return torch.floor((rows - minimum) / step + 0.5).clamp(max=2**bits - 1) * step + minimum


@measures("CD-2")
def undecoded_cache() -> Effect:
    """Send 4-bit deltas of a drifting row, with a sender that caches the decoded value, and one that caches its own.

    The figures are errors of replicas in steps after 100 deltas (CDFGNN Alg. 2 with Eqs. 22, 23).
    """
    figures = {}
    for name, keeps_decoded in (("own", False), ("decoded", True)):
        generator = torch.Generator().manual_seed(0)
        # sender's row, sender's cache, receiver's copy
        value, cached_row, replica = (torch.zeros(64) for _ in range(3))
        for _ in range(100):
            value = value + torch.randn(64, generator=generator)
            delta = value - cached_row
            step = (delta.amax() - delta.amin()) / 15  # 4 bits: 15 steps
            sent_delta = torch.round((delta - delta.amin()) / step) * step + delta.amin()
            replica = replica + sent_delta  # the receiver adds decoded deltas
            # own value: rounding errors of the replica are never sent again
            cached_row = replica.clone() if keeps_decoded else value
        figures[name] = float((replica - value).square().mean().sqrt() / step)
    return Effect(
        f"after 100 deltas of 4 bits replicas are {figures['own']:.1f} steps off if the sender caches its own value, "
        f"{figures['decoded']:.2f} if it caches the decoded one",
        figures,
    )


@measures("CD-4")
def totals_for_differences() -> Effect:
    """Send a total that changes by 0.05 per epoch in 4 bits: whole, as in Algorithm 2, or as a difference."""
    figures = {}
    for name, differences in (("totals", False), ("differences", True)):
        generator = torch.Generator().manual_seed(0)
        # a cache of zeros: the first difference is the whole total
        total, cached_row, squares = torch.randn(64, generator=generator), torch.zeros(64), 0.0
        for epoch in range(60):
            total = total + 0.05 * torch.randn(64, generator=generator)
            cached_row = cached_row + _linear(total - cached_row, 4) if differences else _linear(total, 4)
            # the first ten epochs are a transient from the empty cache
            squares += float((cached_row - total).square().mean()) if epoch >= 10 else 0.0
        figures[name] = (squares / 50) ** 0.5
    return Effect(
        f"a total that changes by 0.05 per epoch has an error of {figures['totals']:.4f} if it is quantized whole in "
        f"4 bits, {figures['differences']:.4f} if its difference is",
        figures,
    )


def _descent(step: float, steps: int, error: float) -> tuple[float, list[float]]:
    """Descend w²/2 with a gradient error opposed to the gradient; return the mean squared gradient, and the errors."""
    w, squares, errors = 1.0, 0.0, []
    for _ in range(steps):
        delta = -min(error, w)  # opposed to the gradient w, but never larger
        squares += w * w
        errors.append(delta * delta)
        w -= step * (w + delta)  # gradient step with the erroneous gradient
    return squares / steps, errors


@measures("CD-5")
def dropped_cross_term() -> Effect:
    """Compare both readings of the bound with a descent whose error opposes the gradient; ascend with W + η∇."""
    mean, errors = _descent(0.01, 10_000, 0.5)
    bounds = {
        # cross term kept, or dropped as in the proof
        reading: cache_bound(loss_gap=0.5, step=0.01, curvature=1.0, errors=errors, reading=reading).total
        for reading in ("kept", "printed")
    }
    climbed = 0.5 * (1.0 * 1.01**100) ** 2  # W + η∇L multiplies w by 1 + η in each step
    return Effect(
        f"on w²/2 with |Δ| = 0.5 the mean of ||∇L||² is {mean:.3f}; the bound as printed is {bounds['printed']:.3f}, "
        f"with the term {bounds['kept']:.3f}; and W + η∇ leads from a loss of 0.5 to {climbed:.2f} in 100 steps",
        {"mean": mean, "climbed": climbed, **bounds},
    )


@measures("CD-6")
def error_that_stays() -> Effect:
    """Increase N with η = 1 / √N at a constant error: the mean of ||∇L||² converges to Δ², not to zero."""
    # η = 1 / sqrt(N)
    figures = {f"steps_{steps}": _descent(steps**-0.5, steps, 0.5)[0] for steps in (100, 10_000, 1_000_000)}
    error_1e2, error_1e4, error_1e6 = figures.values()  # N = 10², 10⁴, 10⁶
    return Effect(
        f"with |Δ| = 0.5 and η = 1/√N the mean of ||∇L||² is {error_1e2:.3f}, {error_1e4:.3f} and {error_1e6:.3f} for "
        "N = 10², 10⁴ and 10⁶: it converges to Δ² = 0.25",
        figures,
    )


def _normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@measures("TG-4")
def half_a_code_too_many() -> Effect:
    """Scale tensors by ``max / (2^(B-1) - 1/2)``, as Eqs. 1 and 3 imply together, and round them stochastically."""
    tensors = _normal(400, 4096, seed=0)  # 400 tensors of 4096 elements
    noise = torch.rand(tensors.shape, generator=torch.Generator().manual_seed(1))
    scaled_tensors = tensors / (tensors.abs().amax(1, keepdim=True) / 127.5)  # max maps to 127.5, half a code too many
    share = float((torch.floor(scaled_tensors + noise).abs() > 127).any(1).float().mean())
    # The divisor of Eq. 4, x + rounded + ε, nearly vanishes for a small negative x.
    x, rounded_x = torch.tensor(-0.0004), torch.tensor(0.0)
    error = float(((x - rounded_x) / (x + rounded_x + 0.0005)).abs())
    return Effect(
        f"at 8 bits the largest element of {share:.0%} of tensors leaves [-127, 127]; Eq. 4 gives {error:.1f} for "
        f"x = {x.item():g} rounded to 0, but should lie in [0, 1]",
        {"outside": share, "error": error},
    )


@measures("TG-5")
def logits_on_codes() -> Effect:
    """Compare attention over codes with float32, with float32 logits and with quantized halves of logits.

    There is one scale per tensor. Halves are N(0, 2^2), similar to trained ones; errors are relative to the norm of the
    output.
    """
    nodes, heads, features, degree = 2000, 4, 16, 10
    # each node has `degree` random neighbours
    indices = torch.randint(nodes, (nodes * degree,), generator=torch.Generator().manual_seed(2)).int()
    adjacency = Adjacency(torch.arange(nodes + 1) * degree, indices, num_columns=nodes)
    z = _normal(nodes, heads, features, seed=3)  # projected rows, (N, K, F)
    # attention vectors of source and target: halves of logits are N(0, 2²)
    vectors = [_normal(heads, features, seed=seed) * 2.0 / features**0.5 for seed in (4, 5)]
    truth, figures = PLAIN.attend(adjacency, z, *vectors), {}
    for bits in (8, 4):
        for name, exact_logits in (("exact", True), ("codes", False)):
            products = Int8Products(bits=bits, scale="tensor", exact_logits=exact_logits).build()
            attended = products.attend(adjacency, z, *vectors)
            figures[f"{name}_{bits}"] = float((attended - truth).norm() / truth.norm())
    words = "; ".join(
        f"at {human_bits(bits)} the output of attention is {figures[f'exact_{bits}']:.2%} off with float32 logits, "
        f"{figures[f'codes_{bits}']:.2%} with quantized halves"
        for bits in (8, 4)
    )
    return Effect(f"with one scale per tensor, {words}", figures)
