"""What codecs make of the rows of a real training, by direction, layer and bits, and of the gradient.

Two workers on a METIS partition, 3 layers of width 256 after some epochs of exact training, no dropout. The error of a
message is relative to the squared norm of its rows; bytes of a row of 256 columns stand in the figure. One rotation
keeps a bias on spiky and on short rows, and rounding to the nearest on all, which stands there too. Of the codecs
without a bias the one with the least error of a direction, over its layers, stands in that direction beside row min-max
codes of the same bits in both: variance of the gradient over messages.

Then messages that depend on those before, over the last epochs of such a training: the error of rows sent as
differences to what their receiver holds beside that of whole rows in the same codes, and the error of the mean of all
messages rounded to the nearest with feedback beside that without. Features, which never change, are left out: they may
as well travel once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gnnqlab.bench.graphs import find_graph
from gnnqlab.bench.rows import row
from gnnqlab.bits.row import row_bytes
from gnnqlab.message.codec import Codec

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.nn.models.registry import ModelSettings

__all__ = ["codecs"]

GRAPHS = {"digits": 20, "amazon_computers": 60}
"""Graph -> epochs of training before the rows are taken."""
MODELS = ("gcn", "graphsage")
GOALS: dict[int, float | None] = {1: 10.0, 2: 10.0, 4: 4.0, 8: None}
"""Bits -> how many times less variance the best codec by direction should have."""
LAST = 10
"""Epochs at the end of a training over which messages depend on those before."""
BIASED = ("rotated once", "MXFP8 to the nearest")


def codecs(
    repeats: int = 8, graphs: tuple[str, ...] = tuple(GRAPHS), models: tuple[str, ...] = MODELS
) -> list[dict[str, Any]]:
    """Measure errors of messages and variances of gradients; graphs are looked for as ``bench epoch`` does.

    Args:
        repeats: passes by which the variance of a gradient is measured.

    Returns:
        Rows as :func:`gnnqlab.bench.registry.measure` describes them.
    """
    rows = []
    for name in graphs:
        path = name if name == "digits" else find_graph(name)
        if path is None:
            print(f"bench codecs: {name}.npz is not here, so its rows are left out", flush=True)
            continue
        for model in models:
            rows += _rows(name, path, model, GRAPHS.get(name, 20), repeats)
    return rows


def _rows(name: str, path: str, model: str, epochs: int, repeats: int) -> list[dict[str, Any]]:
    from gnnqlab.bits.policy import Fixed
    from gnnqlab.graph.sources import load
    from gnnqlab.measure.codec_error import codec_error, trained_rows
    from gnnqlab.measure.gradient_noise import gradient_noise, trained_weights
    from gnnqlab.message.codec import Stochastic
    from gnnqlab.message.direction import ByDirection
    from gnnqlab.nn.models.registry import ModelSettings

    usual = Stochastic()
    graph, shape = load(path), ModelSettings(name=model, layers=3, hidden=256, dropout=0.0)
    weights = trained_weights(graph, shape, epochs)
    sent, found = trained_rows(graph, shape, weights), _in_time(f"{name}, {model}", graph, shape, epochs)
    for bits, goal in GOALS.items():
        others = _codecs(bits)
        worst: dict[str, dict[str, float]] = {}
        for place, rows in sent.items():
            plain = codec_error(usual, rows, bits).squared
            errors = worst.setdefault(place.direction, dict.fromkeys(["min-max", *others], 0.0))
            errors["min-max"] += plain
            for kind, codec in others.items():
                error = codec_error(codec, rows, bits)
                errors[kind] += error.squared
                case = f"{name}, {model}, {place.direction}, layer {place.layer}, {bits} bit"
                figure = f"squared error of a message, {kind}, {_row_bytes(codec, bits)} B a row"
                figure += f"; bias {error.bias:.3f} of the norm"
                ratio = plain / error.squared if error.squared else None
                found.append(row(case, figure, error.squared, "of the square", "row min-max", plain, ratio))
        known = set(errors) - set(BIASED)  # a bias is in no variance, so what has one cannot be chosen by it
        best = {direction: min(sorted(known), key=errors.__getitem__) for direction, errors in worst.items()}
        chosen = ByDirection(*({"min-max": usual, **others}[best[each]] for each in ("forward", "backward")))
        ours, theirs = (
            gradient_noise(graph, Fixed(bits=bits), shape, repeats=repeats, weights=weights, codec=codec).relative
            for codec in (chosen, usual)
        )
        share = _row_bytes(chosen.backward, bits) / _row_bytes(usual, bits)
        figure = f"gradient variance, {best['forward']} forward, {best['backward']} backward"
        figure += f" ({share:.0%} of the bytes of a gradient row)"
        case = f"{name}, {model}, {bits} bit"
        found.append(row(case, figure, ours, "of the square", "row min-max", theirs, theirs / ours, goal))
    return found


def _in_time(of: str, graph: Graph, shape: ModelSettings, epochs: int) -> list[dict[str, Any]]:
    """Measure differences and error feedback over the last epochs of a training."""
    from gnnqlab.measure.late_messages import late_error, late_rows
    from gnnqlab.message.cache import NoCache
    from gnnqlab.message.codec import Stochastic
    from gnnqlab.message.difference import Difference
    from gnnqlab.message.feedback import Feedback
    from gnnqlab.message.linear import Linear
    from gnnqlab.message.rotated import Rotated

    found = []
    for place, rows in late_rows(graph, shape, epochs, last=min(LAST, epochs)).items():
        if bool((rows == rows[0]).all()):
            continue
        for bits in GOALS:
            case = f"{of}, {place.direction}, layer {place.layer}, {bits} bit, last {rows.shape[0]} of {epochs} epochs"
            # Errors of codes between a row's ends would grow at one bit.
            kind, codec = ("rotated", Rotated()) if bits == 1 else ("row min-max", Stochastic())
            ours, theirs = (late_error(cache, codec, rows, bits).squared for cache in (Difference(), NoCache()))
            figure = f"squared error of a message, {kind} codes of differences, {_row_bytes(codec, bits)} B a row"
            found.append(row(case, figure, ours, "of the square", f"{kind} of rows", theirs, _ratio(theirs, ours)))
            nearest = Linear()
            ours, theirs = (late_error(cache, nearest, rows, bits).of_mean for cache in (Feedback(), NoCache()))
            figure = (
                f"squared error of the mean message, to the nearest with feedback, {_row_bytes(nearest, bits)} B a row"
            )
            found.append(row(case, figure, ours, "of the square", "without", theirs, _ratio(theirs, ours)))
    return found


def _ratio(theirs: float, ours: float) -> float | None:
    return theirs / ours if ours else None


def _codecs(bits: int) -> dict[str, Codec]:
    """Return the codecs that stand beside row min-max; rotated rows of 8 bits are those of min-max codes."""
    from gnnqlab.message.fp8 import FP8, MXFP8
    from gnnqlab.message.rotated import Rotated
    from gnnqlab.message.spikes import Spikes

    if bits < 8:
        return {"rotated once": Rotated(rotations=1), "rotated twice": Rotated(), "4 spikes apart": Spikes()}
    return {
        "4 spikes apart": Spikes(),
        "FP8": FP8(rounding="stochastic"),
        "MXFP8": MXFP8(rounding="stochastic"),
        "MXFP8 to the nearest": MXFP8(),
    }


def _row_bytes(codec: Codec, bits: int) -> int:
    return row_bytes(bits, 256, codec.param_bytes)
