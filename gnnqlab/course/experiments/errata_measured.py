"""Measured effects of the differences in `gnnqlab.course.errata`: one small seeded function each, with cached results.

Rows are N(0, 1) unless stated otherwise; "step" is the scale S, the size of a quantization step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gnnqlab.bits.assigner.assemble import MessageGroups, assemble
from gnnqlab.bits.assigner.problem import Problem
from gnnqlab.bits.assigner.solver import solve
from gnnqlab.graph.generate import rmat, sbm
from gnnqlab.kernels.codec.rows import decode_rows, encode_rows
from gnnqlab.kernels.sparse.aggregate import spmm
from gnnqlab.message.codecs.codec import Noise, Stochastic
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.edge_cut import Random
from gnnqlab.simulation.theory_check import gradient_variance
from gnnqlab.systems.registry import make_system
from gnnqlab.theory.cost import LinkCost
from gnnqlab.theory.variance import decoded_moments, received_variance, step_widths
from gnnqlab.train.config.run_config import TrainSettings

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph.graph import Graph
    from gnnqlab.systems.system import System

__all__ = ["MEASUREMENTS", "Effect", "decoded_errors", "in_standard_errors", "measures"]


@dataclass(frozen=True)
class Effect:
    """Measured effect of an erratum, in words and numbers."""

    text: str
    figures: dict[str, float]


_WORKERS, _GROUPS, _ROWS = 4, 10, 100
"""Number of workers, groups per message and rows per group where bit-widths are assigned without θ (AQ-22)."""
MEASUREMENTS: dict[str, Callable[[], Effect]] = {}
"""Id -> function; each computes its effect in the first call."""


def measures(name: str) -> Callable[[Callable[[], Effect]], Callable[[], Effect]]:
    """Return a decorator that registers a function as the measurement of an erratum and caches its result."""

    def register(function: Callable[[], Effect]) -> Callable[[], Effect]:
        MEASUREMENTS[name] = cache(function)  # a measurement runs once per process
        return MEASUREMENTS[name]

    return register


def _normal(*shape: int, seed: int = 0) -> Tensor:
    # A generator of its own: measurements do not depend on their order.
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@measures("AQ-1")
def squared_sum_for_sum_of_squares() -> Effect:
    """Rank the messages of a power-law graph by (Σα)² and by Σα²; then by their true weight, ||Σ_v α δ_v||²."""
    weights = _power_law_pass()
    squared_sums, sums_of_squares = weights["sum_alpha"] ** 2, weights["sum_squares"]  # per halo row, (H,)
    figures = {
        "rank_correlation": _rank_correlation(squared_sums, sums_of_squares),
        "rank_correlation_mean": _rank_correlation(weights["sum_mean"] ** 2, weights["sum_mean_squares"]),
        "squares_with_truth": _rank_correlation(sums_of_squares, weights["true_weight"]),
        "sum_with_truth": _rank_correlation(squared_sums, weights["true_weight"]),
    }
    return Effect(
        f"on a power-law graph the rank correlation of the two is {figures['rank_correlation']:.2f} with GCN's α, "
        f"{figures['rank_correlation_mean']:.2f} with GraphSAGE's; with a message's true weight at a GCN's "
        f"initial weights it is {figures['squares_with_truth']:.2f} for Σα², {figures['sum_with_truth']:.2f} for (Σα)²",
        figures,
    )


@measures("AQ-2")
def parameters_cut_after_encoding() -> Effect:
    """Decode codes of float32 parameters with bfloat16 ones; the expected error is known exactly."""
    rows_KD = _normal(2000, 256)  # 2000 rows of 256 columns
    figures: dict[str, float] = {}
    for bits in (8, 4, 2, 1):
        low_K1, top_K1 = rows_KD.amin(1, keepdim=True), rows_KD.amax(1, keepdim=True)
        scale_K1 = (top_K1 - low_K1) / (2**bits - 1)
        # rounded after the codes were computed
        cut_scale_K1, cut_low_K1 = scale_K1.bfloat16().float(), low_K1.bfloat16().float()
        # (K, D), not rounded to integers: the mean of stochastic rounding
        expected_code_KD = (rows_KD - low_K1) / scale_K1
        # the mean error of stochastic codes, decoded with the cut parameters
        bias_KD = expected_code_KD * cut_scale_K1 + cut_low_K1 - rows_KD
        variance = decoded_moments(rows_KD, bits).exact.sum()  # of unbiased codes: E||error||² = variance + bias²
        figures[f"bias_{bits}"] = float((bias_KD / scale_K1).abs().mean())
        figures[f"worst_{bits}"] = float((bias_KD / scale_K1).abs().max())
        figures[f"mse_ratio_{bits}"] = float(1 + bias_KD.double().square().sum() / variance)
    figures["ours_in_standard_errors"] = _bias_of_codec("bfloat16", bits=8)
    figures["cut_in_standard_errors"] = _bias_of_codec("bfloat16-after", bits=8)
    return Effect(
        f"at 8 bits mean |bias| {figures['bias_8']:.2f} steps, worst {figures['worst_8']:.2f}, squared error "
        f"{figures['mse_ratio_8']:.2f}×; 4 bits {figures['bias_4']:.3f} steps; 2 bits {figures['bias_2']:.4f}; "
        f"1 bit {figures['bias_1']:.4f}. The mean of 200 decodings is off by {figures['cut_in_standard_errors']:.1f} "
        f"standard errors with as_released=True, {figures['ours_in_standard_errors']:.2f} with ours",
        figures,
    )


def _bias_of_codec(parameters: str, *, bits: int) -> float:
    """Return the bias of decoded rows in standard errors, for a type of scale and zero-point."""
    return in_standard_errors(decoded_errors(_normal(32, 64, seed=1), bits, parameters))


def decoded_errors(rows_KD: Tensor, bits: int, parameters: str, repeats: int = 200) -> Tensor:
    """Return the errors of decoded rows in ``repeats`` messages of independent noise, float64 ``(repeats, K, D)``."""
    numbers_K = torch.arange(len(rows_KD))
    codec = Stochastic(parameters=parameters)
    layout = codec.layout(bits, *rows_KD.shape)
    segment, out_KD = torch.empty(layout.num_bytes, dtype=torch.uint8), torch.empty_like(rows_KD)
    errors = []
    for epoch in range(repeats):
        codec.encode(rows_KD, numbers_K, numbers_K, layout, segment, Noise(0, epoch, 0))  # the epoch keys the noise
        codec.decode(segment, layout, out_KD, numbers_K, accumulate=False)
        errors.append(out_KD.double() - rows_KD.double())
    return torch.stack(errors)  # (repeats, K, D)


def in_standard_errors(errors: Tensor) -> float:
    """Return the norm of the mean error over that of its standard error; about 1 if unbiased."""
    # norm of the mean over the root of (variance / repeats)
    return float(errors.mean(0).norm() / (errors.var(0).sum() / len(errors)).sqrt())


@measures("AQ-3")
def no_clamp() -> Effect:
    """Count the 24-bit uniform numbers u for which floor(h + u) of a row's largest value exceeds 8 bits."""
    rows_KD = _normal(2000, 256)
    low_K, top_K = rows_KD.amin(1), rows_KD.amax(1)
    # 255, up to a rounding error of float32
    steps_K = (top_K - low_K) / ((top_K - low_K) / 255)
    window = 4096  # only u close to 1 can overflow
    u_U = 1 - torch.arange(window, dtype=torch.float32) / 2**24  # the largest values of a 24-bit uniform number below 1
    # batches of 250 rows bound the memory
    num_spilled = sum(int((torch.floor(part[:, None] + u_U) > 255).sum()) for part in steps_K.split(250))
    rate = num_spilled / (len(steps_K) * 2**24)
    return Effect(f"one row in {1 / rate:,.0f} overflows at 8 bits (floor in float32, u of 24 bits)", {"rate": rate})


@measures("AQ-4")
def constant_rows() -> Effect:
    """Quantize ReLU rows, some of them all zero, by the plain formula and by our codec."""
    rows_KD = torch.relu(_normal(400, 32))
    rows_KD[::10] = 0.0  # a tenth of the rows is all zero, as after ReLU
    low_K1, top_K1 = rows_KD.amin(1, keepdim=True), rows_KD.amax(1, keepdim=True)
    # 0 * inf = NaN in the rows of zeros
    plain_KD = torch.round((rows_KD - low_K1) * (3 / (top_K1 - low_K1))) * ((top_K1 - low_K1) / 3) + low_K1
    numbers_K = torch.arange(400)
    # 32 codes of 2 bits; two parameters
    payload, params = torch.zeros(400 * 8, dtype=torch.uint8), torch.zeros(400, 2)
    encode_rows(rows_KD, numbers_K, numbers_K, 2, None, payload, params, seed=0, epoch=0, stream=0)
    out_KD = torch.empty_like(rows_KD)
    decode_rows(payload, params, 2, None, out_KD, None)
    figures = {
        "dead_rows": 0.1,
        "nan_rows": float(plain_KD.isnan().any(1).float().mean()),
        "our_error": float((out_KD[::10] - rows_KD[::10]).abs().max()),
    }
    return Effect(
        f"{figures['nan_rows']:.0%} of rows become NaN if {figures['dead_rows']:.0%} are all zero; our error is "
        f"{figures['our_error']:g} there",
        figures,
    )


@measures("AQ-14")
def product_term() -> Effect:
    """Compare Theorem 3 with the product term as printed and as derived, in the layer with the largest effect."""
    figures = {}
    for bits in (1, 2, 8):
        frame = _small_check(bits, smooth=False, repeats=2)
        figures[f"bits_{bits}"] = float((frame["printed"] / frame["bound"]).max())  # layer with the largest effect
    return Effect(
        f"the term is 6× too large; Q^l grows by {figures['bits_1'] - 1:.0%} at 1 bit, {figures['bits_2'] - 1:.1%} at "
        f"2 and {figures['bits_8'] - 1:.2%} at 8 on a small graph",
        figures,
    )


@measures("AQ-15")
def average_called_variance() -> Effect:
    """Compute the exact variance over D S²/6, for normal rows and for rows after ReLU."""
    figures = {}
    for kind, rows_KD in (("normal", _normal(2000, 256)), ("relu", torch.relu(_normal(2000, 256)))):
        for bits in (1, 2, 4, 8):
            moments = decoded_moments(rows_KD, bits)
            # 1 if Theorem 1's D S²/6 is exact
            figures[f"{kind}_{bits}"] = float(moments.exact.sum() / moments.average.sum())
    normal_text = ", ".join(f"{figures[f'normal_{bits}']:.2f}" for bits in (1, 2, 4, 8))
    relu = ", ".join(f"{figures[f'relu_{bits}']:.2f}" for bits in (1, 2, 4, 8))
    return Effect(
        f"exact / average at 1, 2, 4, 8 bits: {normal_text} on N(0,1); {relu} after ReLU (worst: 1.5)", figures
    )


@measures("AQ-17")
def shared_messages() -> Effect:
    """Compare the first-order noise of messages in a weight gradient with the sum of Eq. 25."""
    weights = _power_law_pass()
    ratio = float(weights["shared_noise"].sum() / weights["separate_noise"].sum())
    return Effect(
        f"the noise of layer 0's rows is {ratio:.2f}× what Eq. 25 gives on a power-law graph", {"ratio": ratio}
    )


@measures("AQ-18")
def activations_left_out() -> Effect:
    """Measure the gradient variance over Theorem 3's bound, with ReLU and with GELU."""
    figures = {}
    for bits in (2, 8):
        for name, is_smooth in (("relu", False), ("gelu", True)):
            # last row: all layers
            figures[f"{name}_{bits}"] = float(_small_check(bits, smooth=is_smooth)["ratio"].iloc[-1])
    return Effect(
        f"variance / bound: ReLU {figures['relu_2']:.2f} at 2 bits, {figures['relu_8']:.1f} at 8; "
        f"GELU {figures['gelu_2']:.2f} and {figures['gelu_8']:.2f}",
        figures,
    )


@measures("AQ-19")
def biased_gradient() -> Effect:
    """Measure the distance of the mean gradient from the exact one; about one standard error if there is no bias."""
    figures = {}
    for name, is_smooth in (("relu", False), ("gelu", True)):
        total_row = _small_check(8, smooth=is_smooth).iloc[-1]  # last row: all layers
        figures[name] = float(total_row["bias"] / total_row["standard_error"])
        figures[f"{name}_relative"] = float(total_row["bias"] / total_row["norm"])
    return Effect(
        f"at 8 bits the mean of 32 gradients is off by {figures['relu']:.1f} standard errors with ReLU "
        f"({figures['relu_relative']:.2%} of the gradient), {figures['gelu']:.1f} with GELU",
        figures,
    )


@dataclass(frozen=True)
class WithoutRates:
    """Cost of the slides' bit-widths at the true rates, over the cost of Eq. 12's bit-widths."""

    objective: float
    """Normalized objective, λ = 1/2."""
    seconds: float
    """Seconds of the exchange."""


def without_rates(slower: float) -> WithoutRates:
    """Assign bit-widths to messages of lognormal β in ring rounds of four workers, with θ of the links and without.

    Args:
        slower: seconds per byte of worker 0 over those of the others; at least 1.

    Example:
        >>> equal, slow = without_rates(1.0), without_rates(10.0)
        >>> round(equal.objective, 2), slow.objective > 1.05
        (1.0, True)
    """
    paper = _problem(slower)
    # Solve with θ = 1 everywhere, as the slides do, but evaluate the choice at the true rates.
    slides = replace(paper, theta_s_per_byte=np.ones_like(paper.theta_s_per_byte))
    # bit-widths solved without θ, and the optimum with θ
    choice, optimum = paper.choice(solve(slides).widths), solve(paper)
    objective = paper.objective(paper.variance(choice), paper.seconds(choice))  # evaluate with θ
    return WithoutRates(objective / optimum.objective, paper.seconds(choice) / optimum.seconds)


def _problem(slowdown: float) -> Problem:
    generator, cost = np.random.default_rng(0), LinkCost.uniform(_WORKERS, bytes_per_s=1e8)
    rates = np.ones((_WORKERS, 1))
    rates[0] = slowdown  # worker 0 sends more slowly than the others
    messages = [
        MessageGroups(sender, receiver, np.full(_GROUPS, _ROWS), np.sort(generator.lognormal(0, 2, _GROUPS))[::-1])
        for sender, receiver in itertools.permutations(range(_WORKERS), 2)
    ]
    cost = replace(cost, theta_s_per_byte=rates * cost.theta_s_per_byte)  # θ in seconds per byte, (sender, receiver)
    # one message per ordered pair, in ring rounds
    return assemble(messages, cost, columns=256, lam=0.5, transport="ring")


@measures("AQ-22")
def theta_left_out() -> Effect:
    """Assign bit-widths with the slides' constraint, with equal links and with a slow one."""
    equal_rates, slow_rates = without_rates(1.0), without_rates(10.0)
    return Effect(
        f"if one of four workers sends at a tenth of the others' rate, an exchange takes {slow_rates.seconds:.2f}× as "
        f"long and Eq. 12 is {slow_rates.objective:.2f}× its least value; {equal_rates.objective:.2f}× with "
        "equal rates",
        {"alike": equal_rates.objective, "slow": slow_rates.objective, "slow_seconds": slow_rates.seconds},
    )


@cache
def _small_check(bits: int, *, smooth: bool, repeats: int = 32) -> DataFrame:
    """Check Theorem 3 on a small graph with two workers."""
    shape = ModelSettings(name="gcn", layers=2, hidden=32, norm="none")  # no norm: Theorem 3 has none
    graph = sbm(200, 4, 8, features=16)
    return gradient_variance(graph, _quantized(bits), shape, workers=2, repeats=repeats, smooth=smooth)


def _quantized(bits: int) -> System:
    return replace(make_system("fixed-bits", bits=bits), partition=Random())


@cache
def _power_law_pass() -> dict[str, Tensor]:
    """Return weights and noise of each halo row in layer 0 of a GCN, on a power-law graph with four workers."""
    from gnnqlab.nn.models.registry import ModelSettings
    from gnnqlab.simulation.gradient_trace import traced_workers
    from gnnqlab.systems.registry import make_system

    graph: Graph = rmat(11, 8, features=16)  # power-law degrees: 2^11 nodes, 8 edges per node
    system = _quantized(8)
    workers, traces = traced_workers(
        graph,
        system.partition.cut(graph, 4),
        make_system("vanilla"),
        ModelSettings(layers=2, hidden=32, norm="none", dropout=0.0),
        TrainSettings(),
    )
    workers.gradients(0)  # one pass that records gradients and weights
    parts: list[dict[str, Tensor]] = []
    for trace in traces:
        shard, layer = trace.shard, trace.layers[0]
        gradient = layer.output_gradient
        assert gradient is not None
        alpha = shard.alpha(layer.alpha)
        # Edges whose source is a halo node: receiving row, halo column, aggregation weight α.
        row = torch.repeat_interleave(torch.arange(shard.num_owned), shard.indptr.diff())
        remote = shard.indices >= shard.num_owned
        column, alpha, row = shard.indices[remote].long() - shard.num_owned, alpha[remote], row[remote]
        halo = (shard.num_owned, shard.num_owned + shard.num_halo)
        # ||Σ_v α δ_v||² per halo row: the transposed aggregation of the output gradient. (owned, hidden) -> (halo,)
        true_weight = (
            spmm(trace.graph.adjacency(layer.alpha), gradient, rows=halo, transposed=True).double().square().sum(1)
        )
        squares = gradient.double().square().sum(1)
        variance = step_widths(_ranges(graph, shard.halo), 8) ** 2  # S² per halo row; constant factors cancel in ratios
        mean = shard.alpha("mean")[remote]
        ones = torch.ones(shard.num_halo)
        # Σα² ||δ||² per halo row: rows of a worker as if independent
        separate_noise = received_variance(row, column, alpha, squares, num_rows=shard.num_halo)
        parts.append(
            {
                "sum_alpha": torch.zeros(shard.num_halo).index_add_(0, column, alpha).double(),
                "sum_squares": received_variance(column, column, alpha, ones, num_rows=shard.num_halo),
                "sum_mean": torch.zeros(shard.num_halo).index_add_(0, column, mean).double(),
                "sum_mean_squares": received_variance(column, column, mean, ones, num_rows=shard.num_halo),
                "true_weight": true_weight,
                "shared_noise": true_weight * variance,
                "separate_noise": separate_noise * variance,
            }
        )
    # halo rows of all workers, concatenated
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _ranges(graph: Graph, nodes: Tensor) -> Tensor:
    rows = graph.features[nodes]  # type: ignore[index]
    return rows.amax(1) - rows.amin(1)


def _rank_correlation(a: Tensor, b: Tensor) -> float:
    """Return Spearman's rank correlation."""
    import pandas as pd

    return float(pd.Series(a.numpy()).rank().corr(pd.Series(b.numpy()).rank()))  # correlation of the ranks
