"""Quantities that each notebook lets its reader guess, with their units."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["QUANTITIES", "Quantity"]


@dataclass(frozen=True)
class Quantity:
    """One quantity to guess: a number with a unit, or one of several words."""

    label: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    """Words to choose from; empty for a number."""


_NO_YES = ("no", "yes")
_LENGTH = "% of the row's length"

QUANTITIES: dict[str, dict[str, Quantity]] = {
    "01": {
        "fewer_bytes": Quantity("bytes of an epoch in 2 bits", "times fewer"),
        "points": Quantity("test accuracy lost", "points"),
    },
    "02": {
        "random": Quantity("marginal nodes, random owners", "%"),
        "metis": Quantity("marginal nodes, METIS", "%"),
    },
    "03": {"apart": Quantity("largest distance between the losses")},
    "04": {
        "once": Quantity("error of one message", _LENGTH),
        "mean": Quantity("mean error of 500 messages", _LENGTH),
    },
    "05": {
        "share": Quantity("gradient variance in 2 bits", "% of the squared gradient"),
        "factor": Quantity("variance in 2 bits / in 4 bits", "times"),
    },
    "06": {
        "random": Quantity("variance of random bit-widths / of assigned ones", "times"),
        "four_bits": Quantity("variance of 4 bits everywhere / of assigned ones", "times"),
    },
    "07": {"faster": Quantity("speed-up by overlap alone", "times")},
    "08": {
        "faster": Quantity("speed-up of AdaQP", "times"),
        "points": Quantity("change of test accuracy", "points"),
    },
    "09": {
        "shallow": Quantity("error of the gradient with 2 layers", "%"),
        "deep": Quantity("error of the gradient with 16 layers", "%"),
    },
    "10": {"share": Quantity("epochs with base 8", "%")},
    "11": {
        "still": Quantity("change of a row in an epoch, without dropout", "%"),
        "moving": Quantity("change of a row in an epoch, with dropout", "%"),
    },
    "12": {
        "nodes": Quantity("rows stored per node, METIS", "rows"),
        "edges": Quantity("rows stored per node, EBV", "rows"),
    },
    "13": {"skipped": Quantity("rows skipped over the whole training", "%")},
    "14": {
        "outer": Quantity("connections between hosts", "% fewer"),
        "inner": Quantity("connections within a host", "% more"),
    },
    "15": {
        "eight": Quantity("accuracy lost in 8 bits", "points"),
        "four": Quantity("accuracy lost in 4 bits", "points"),
    },
    "16": {"gcn": Quantity("speed-up of the GCN", "times"), "gat": Quantity("speed-up of the GAT", "times")},
    "17": {"times": Quantity("bytes of a broadcast / of a halo exchange, 16 workers", "times")},
    "18": {
        "float32": Quantity("sum of gradients in an epoch, float32", "%"),
        "two_bits": Quantity("sum of gradients in an epoch, 2 bits", "%"),
    },
    "19": {"factor": Quantity("the bound as printed is too small by", "times")},
    "20": {"lines": Quantity("Python of a new codec", "lines")},
    "21": {"percent": Quantity("rows from the other machine per own row, METIS", "%")},
    "22": {
        "faster": Quantity("speed-up of an epoch at λ = 0", "times"),
        "variance": Quantity("variance at λ = 0 / at λ = 1", "times"),
    },
    "23": {"better": Quantity("share p of sent rows with the better test accuracy", choices=("0", "0.1"))},
    "24": {
        "share": Quantity("rate of encoding, of the copy's rate", "%"),
        "registers": Quantity("registers per thread with which all warps fit", "registers"),
    },
    "25": {"error": Quantity("error of a gradient's row in one bit, min-max codes", _LENGTH)},
    "26": {"share": Quantity("time spent on decisions", "%")},
    "27": {"share": Quantity("share of the noisiest point", "%")},
    "28": {
        "light": Quantity("loss ends lower, smoothed lightly (γ = 0.5)", choices=_NO_YES),
        "heavy": Quantity("loss ends lower, smoothed heavily (γ = 0.95)", choices=_NO_YES),
    },
    "29": {
        "share": Quantity("bytes in 8 bits, of those in float32", "%"),
        "error": Quantity("error in 4 bits / error in float32", "times"),
    },
}
"""Notebook -> name -> quantity."""
