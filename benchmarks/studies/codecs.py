"""Errors of codecs on rows of a real training, by direction, layer and bit-width, and their effect on the gradient.

Two workers on a METIS partition, 3 layers of 256 columns after some epochs with float32 messages, no dropout. The error
of a message is relative to the squared norm of its rows; the metric has the bytes of a row of 256 columns. One rotation
has a bias on spiky and short rows, and rounding to nearest on all rows; the bias is in the detail. Among the unbiased
codecs with at most the bytes of row min-max codes, the one with the least error in a direction, over its layers, is
compared with them: this is the variance of rows used by an assigner, and has a goal. The codec that chooses row by row
is one of them.

The effect on the gradient of all weights has its own rows, without a goal: late in a training most of its noise comes
from forward rows, through the loss, with heavy tails, and does not follow a sum of rows' errors.

Then stateful codecs, over the last epochs of such a training: the error of rows sent as differences from the receiver's
copy, compared with whole rows in the same codes, and the error of the mean of all messages rounded to nearest with
error feedback, compared with that without. Input features, which never change, are excluded: they can be sent once.

Last the spectrum of messages: shares of leading directions, and the error of rows as coefficients in a former epoch's
basis (:mod:`benchmarks.studies.spectrum`), with a goal for gradients at one bit.

With ``--seeds`` whole trainings are compared instead (:mod:`benchmarks.studies.codec_trainings`): scores at one bit
compared with Vanilla's, and bytes until its accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from benchmarks.engine.graphs import find_graph
from benchmarks.engine.rows import row
from benchmarks.studies.codec_trainings import codec_trainings
from benchmarks.studies.spectrum import spectrum_rows
from gnnqlab.bits.row import row_bytes
from gnnqlab.message.codecs.codec import Codec

if TYPE_CHECKING:
    from torch import Tensor

    from gnnqlab.graph.graph import Graph
    from gnnqlab.nn.models.registry import ModelSettings

__all__ = ["codecs"]

GRAPHS = {"cora": 60, "citeseer": 60, "amazon_computers": 60, "coauthor_physics": 40}
"""Graph -> epochs of training before the rows are taken; 20 on any other graph."""
MODELS = ("gcn", "graphsage", "gat")
GOALS: dict[int, float | None] = {1: 10.0, 2: 10.0, 4: 4.0, 8: 1.0}
"""Goal: bit-width -> factor by which the best codec reduces the variance of gradient rows; 1 for forward rows."""
LAST = 10
"""Number of last epochs over which stateful codecs are measured."""
PARTS = ("messages", "means", "gradients", "late", "spectrum")
"""Parts of the table: errors of every codec's messages; their means by direction for the best codec; gradients;
stateful codecs; leading directions of rows."""
BIASED = ("rotated once", "MXFP8 to the nearest")  # excluded from the best: their errors do not cancel over epochs
BY_ROW = "least variance"


def codecs(
    repeats: int = 16,
    *,
    graph: str | None = None,
    models: Sequence[str] = MODELS,
    systems: Sequence[str] | None = None,
    seeds: int | None = None,
    first_seed: int = 0,
    epochs: int | None = None,
    workers: tuple[int, ...] | None = None,
    parts: Sequence[str] = PARTS,
    trainings: str = "runs/bench-codecs",
) -> list[dict[str, Any]]:
    """Measure errors of messages and variances of gradients, or with ``seeds`` results of whole trainings.

    Args:
        repeats: passes to measure the variance of a gradient.
        graph: names or paths, separated by commas; by default those of `GRAPHS` that exist here.
        models: models whose rows are taken.
        epochs: epochs of training; by default those of `GRAPHS`.
        parts: some of `PARTS`.
        systems, seeds, first_seed, workers, trainings: see
            :func:`benchmarks.studies.codec_trainings.codec_trainings`.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.

    Raises:
        ValueError: if an option of trainings is used without ``seeds``, a model or a part with them, or a part is
            unknown.
    """
    if not parts or not set(parts) <= set(PARTS):
        raise ValueError(f"parts must be some of {PARTS}, got {tuple(parts)}")
    if seeds is not None:
        if tuple(parts) != PARTS:  # whole trainings have their own options
            raise ValueError(f"trainings for --seeds are one table, got parts {list(parts)}; leave them out")
        if tuple(models) != MODELS:
            raise ValueError(f"trainings for --seeds are of one model, got models {list(models)}; leave them out")
        worker_options = {} if workers is None else {"workers": workers}
        return codec_trainings(
            seeds=seeds,
            graph=graph,
            systems=systems,
            first_seed=first_seed,
            epochs=epochs,
            trainings=trainings,
            **worker_options,
        )
    if systems is not None or workers is not None or first_seed:
        raise ValueError("--systems, --workers and --first-seed are of whole trainings; add --seeds or leave them out")
    paths: dict[str, str] = {}
    for name in GRAPHS if graph is None else graph.split(","):
        path = find_graph(name) or (None if graph is None else name)
        if path is None:
            print(f"bench codecs: {name}.npz is missing, so its rows are omitted", flush=True)
            continue
        paths[Path(name).stem] = path  # without folder and suffix
    rows, progress = [], tqdm(total=len(paths) * len(models) * len(GOALS))
    for stem, path in paths.items():
        for model in models:
            num_epochs = GRAPHS.get(stem, 20) if epochs is None else epochs
            rows += _rows(stem, path, model, num_epochs, repeats, parts, progress)
    return rows


def _rows(
    name: str, path: str, model: str, epochs: int, repeats: int, parts: Sequence[str], progress: tqdm
) -> list[dict[str, Any]]:
    from gnnqlab.graph.sources import load
    from gnnqlab.message.direction import ByDirection
    from gnnqlab.nn.models.registry import ModelSettings
    from gnnqlab.simulation.codec_error import codec_error, trained_rows
    from gnnqlab.simulation.gradient_noise import trained_weights

    usual_codec = _min_max_codec()
    graph, shape = load(path), ModelSettings(name=model, layers=3, hidden=256, dropout=0.0)
    weights = trained_weights(graph, shape, epochs)
    sent_rows = trained_rows(graph, shape, weights)  # rows of every direction and layer, the same for all codecs
    lines = _stateful_rows(f"{name}, {model}", graph, shape, epochs) if "late" in parts else []
    if "spectrum" in parts:
        lines += spectrum_rows(f"{name}, {model}", graph, shape, epochs, _rivals_of_bases())
    for bits, goal in GOALS.items() if {*parts} & {"messages", "means", "gradients"} else ():
        other_codecs = _codecs(bits)
        error_sums: dict[str, dict[str, float]] = {}
        for place, rows in sent_rows.items():
            plain_error = codec_error(usual_codec, rows, bits).squared
            # summed over layers
            errors = error_sums.setdefault(place.direction, dict.fromkeys(["min-max", *other_codecs], 0.0))
            errors["min-max"] += plain_error
            for kind, codec in other_codecs.items():
                error = codec_error(codec, rows, bits)
                errors[kind] += error.squared
                if "messages" not in parts:
                    continue
                case = f"{name}, {model}, {place.direction}, layer {place.layer}, {bits} bit"
                metric = f"squared error of a message, {kind}, {_row_bytes(codec, bits)} B a row"
                lines.append(
                    _error_row(case, metric, error.squared, plain_error, f" ({error.bias:.3f} of the norm is bias)")
                )
        all_codecs = {"min-max": usual_codec, **other_codecs}
        best_codecs = {direction: _best(errors, all_codecs, bits) for direction, errors in error_sums.items()}
        for direction, errors in error_sums.items() if "means" in parts else ():
            # sum over layers of the best codec
            best_error, plain_error = errors[best_codecs[direction]], errors["min-max"]
            # bytes relative to min-max codes
            share = _row_bytes(all_codecs[best_codecs[direction]], bits) / _row_bytes(usual_codec, bits)
            layers = sum(place.direction == direction for place in sent_rows)
            metric = "variance of rows, the best codec of the direction"
            case = f"{name}, {model}, {direction}, mean of layers, {bits} bit"
            # the goal is for gradients; forward rows must not be worse
            detail, least_ratio = (
                f" ({share:.0%} of the bytes; {best_codecs[direction]})",
                goal if direction == "backward" else 1.0,
            )
            lines.append(_error_row(case, metric, best_error / layers, plain_error / layers, detail, least_ratio))
        progress.set_postfix_str(f"{name}, {model}, {bits} bit", refresh=False)
        progress.update()
        if "gradients" not in parts:
            continue
        pairs = {"the best codecs by direction": (best_codecs["forward"], best_codecs["backward"])}
        if BY_ROW in other_codecs:
            pairs["each row in the code of the least variance"] = (BY_ROW, BY_ROW)
        noises: dict[tuple[str, str], float] = {}  # pairs may coincide, so each is measured once
        for pair in {("min-max", "min-max"), *pairs.values()}:
            codec_pair = ByDirection(*(all_codecs[each] for each in pair))
            noises[pair] = _noise(graph, shape, weights, bits, repeats, codec_pair)
        for kind, pair in pairs.items():
            metric = f"variance of the gradient of all weights, {kind}"
            detail = f" ({repeats} passes; {' forward, '.join(pair)})"
            case = f"{name}, {model}, {bits} bit"
            lines.append(_error_row(case, metric, noises[pair], noises["min-max", "min-max"], detail))
    return lines


def _error_row(
    case: str, metric: str, error: float, rival: float, detail: str, goal: float | None = None
) -> dict[str, Any]:
    """Return the row of an error compared with that of row min-max codes."""
    return row(case, metric, error, "of the square", "row min-max", rival, _ratio(rival, error), goal, detail=detail)


def _best(errors: dict[str, float], all_codecs: dict[str, Codec], bits: int) -> str:
    """Return the unbiased codec of least error with at most the bytes of min-max codes."""
    limit = _row_bytes(all_codecs["min-max"], bits)  # limit of bytes
    candidates = [kind for kind, codec in all_codecs.items() if kind not in BIASED and _row_bytes(codec, bits) <= limit]
    return min(sorted(candidates), key=errors.__getitem__)


def _noise(graph: Graph, shape: ModelSettings, weights: Tensor, bits: int, repeats: int, codec: Any) -> float:
    """Return the variance of the gradient over its square."""
    from gnnqlab.bits.policy import Fixed
    from gnnqlab.simulation.gradient_noise import gradient_noise

    return gradient_noise(graph, Fixed(bits=bits), shape, repeats=repeats, weights=weights, codec=codec).relative


def _stateful_rows(name: str, graph: Graph, shape: ModelSettings, epochs: int) -> list[dict[str, Any]]:
    """Measure delta encoding and error feedback over the last epochs of a training."""
    from benchmarks.studies.late_messages import late_error, late_rows
    from gnnqlab.message.caches.cache import NoCache
    from gnnqlab.message.caches.difference import Difference
    from gnnqlab.message.caches.feedback import Feedback
    from gnnqlab.message.codecs.codec import Stochastic
    from gnnqlab.message.codecs.linear import Linear
    from gnnqlab.message.codecs.rotated import Rotated

    lines = []
    for place, rows in late_rows(graph, shape, epochs, last=min(LAST, epochs)).items():
        if bool((rows == rows[0]).all()):  # input features never change
            continue
        for bits in GOALS:
            case = (
                f"{name}, {place.direction}, layer {place.layer}, {bits} bit, last {rows.shape[0]} of {epochs} epochs"
            )
            # With min-max codes of one bit the error of accumulated differences would grow.
            kind, codec = ("rotated", Rotated()) if bits == 1 else ("row min-max", Stochastic())
            error, plain_error = (late_error(cache, codec, rows, bits).squared for cache in (Difference(), NoCache()))
            figure = f"squared error of a message, {kind} codes of differences, {_row_bytes(codec, bits)} B a row"
            lines.append(
                row(case, figure, error, "of the square", f"{kind} of rows", plain_error, _ratio(plain_error, error))
            )
            nearest_codec = Linear()
            error, plain_error = (
                late_error(cache, nearest_codec, rows, bits).of_mean for cache in (Feedback(), NoCache())
            )
            figure = (
                "squared error of the mean message, to the nearest with feedback, "
                f"{_row_bytes(nearest_codec, bits)} B a row"
            )
            lines.append(row(case, figure, error, "of the square", "without", plain_error, _ratio(plain_error, error)))
    return lines


def _ratio(rival_error: float, error: float) -> float | None:
    return rival_error / error if error else None


def _min_max_codec() -> Codec:
    """Return row min-max codes, with float32 scale and zero-point as in AdaQP."""
    from gnnqlab.message.codecs.codec import Stochastic

    return Stochastic()


def _codecs(bits: int) -> dict[str, Codec]:
    """Return the codecs to compare with row min-max; at 8 bits rotation and choice by row equal min-max codes."""
    from gnnqlab.message.codecs.fp8 import FP8, MXFP8
    from gnnqlab.message.codecs.least_variance import LeastVariance
    from gnnqlab.message.codecs.rotated import Rotated
    from gnnqlab.message.codecs.spikes import Spikes

    if bits < 8:
        return {
            "rotated once": Rotated(rotations=1),
            "rotated twice": Rotated(),
            "4 spikes apart": Spikes(),
            BY_ROW: LeastVariance(),
        }
    return {
        "4 spikes apart": Spikes(),
        "FP8": FP8(rounding="stochastic"),
        "MXFP8": MXFP8(rounding="stochastic"),
        "MXFP8 to the nearest": MXFP8(),
    }


def _rivals_of_bases() -> dict[str, Codec]:
    """Return the codecs with at most the bytes of row min-max codes at one bit, biased ones among them."""
    from gnnqlab.message.codecs.linear import Linear

    all_codecs = {"min-max": _min_max_codec(), **_codecs(1), "linear to the nearest": Linear()}
    limit = _row_bytes(all_codecs["min-max"], 1)
    return {kind: codec for kind, codec in all_codecs.items() if _row_bytes(codec, 1) <= limit}


def _row_bytes(codec: Codec, bits: int) -> int:
    return row_bytes(bits, 256, codec.param_bytes)
