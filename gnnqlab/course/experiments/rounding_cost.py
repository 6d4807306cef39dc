"""Effect of rounding at one point alone: on bytes, on the gradient, and on the loss of a training.

A point is a direction and a layer, ``backward 1``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gnnqlab.bits.exact_at import DIRECTIONS
from gnnqlab.course.experiments.rounded_rows import points_of, points_table, rounded_rows
from gnnqlab.graph.graph import Graph
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.parts import Parts, cut_graph
from gnnqlab.simulation.as_launched import threads_as_launched
from gnnqlab.simulation.gradient_noise import gradient_noise, trained_weights
from gnnqlab.simulation.threaded_workers import exact_trainer
from gnnqlab.systems.exact_at import exact_at
from gnnqlab.systems.system import System
from gnnqlab.theory.intervals import interval
from gnnqlab.train.config.run_config import TrainSettings

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["EVERYTHING", "NOTHING", "bytes_by_point", "gradient_by_point", "loss_by_point", "spread"]

NOTHING, EVERYTHING = "nothing", "everything"
"""Names for a system without changes (no point in float32), and for one with every point in float32."""


def bytes_by_point(parts: Parts, system: System, model: ModelSettings) -> DataFrame:
    """Return the bytes that an epoch sends at each point in codes, and that it would send in float32.

    A row of D columns takes ``ceil(D b / 8)`` bytes and its quantization parameters, or ``4 D``.

    Returns:
        By point: ``rows``, ``columns``, ``kB in codes``, ``kB exact``, and ``times``, the factor by which the bytes of
        the whole epoch grow if this point alone is sent in float32.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> from gnnqlab.systems import fixed_bits
        >>> small = partition(course.ten_nodes(), course.Halves(), workers=2)
        >>> found = bytes_by_point(small, fixed_bits(bits=2), ModelSettings(layers=2, hidden=8, dropout=0.0))
        >>> found.loc["forward 0", ["kB in codes", "kB exact"]].tolist()  # four rows of 2 + 8 bytes, or of 32
        [0.04, 0.128]
    """
    import pandas as pd

    # epoch 0 suffices: bytes depend on settings, not on values
    messages = rounded_rows(parts, system, epoch=0, model=model)
    coded = points_table(messages)["kB"]
    lines = {}
    for point, kilobytes in coded.items():
        rows_at_point = [rows for rows in messages if rows.point == point]
        count, columns = sum(rows.nodes.numel() for rows in rows_at_point), rows_at_point[0].before.shape[1]
        exact_kilobytes = 4 * count * columns / 1e3  # float32: four bytes per element
        # growth of the whole epoch if this point alone is float32
        lines[point] = (count, columns, kilobytes, exact_kilobytes, 1 + (exact_kilobytes - kilobytes) / coded.sum())
    names = ["rows", "columns", "kB in codes", "kB exact", "times"]
    return pd.DataFrame.from_dict(lines, orient="index", columns=names).rename_axis("point")


def gradient_by_point(
    graph: Graph,
    system: System,
    *,
    model: ModelSettings,
    epochs: Sequence[int] = (20,),
    workers: int = 2,
    repeats: int = 16,
    seeds: Sequence[int] = (0,),
) -> DataFrame:
    """Return the variance that rounding at each point alone causes in the gradient of all weights.

    ``E||g - E g||^2 / ||E g||^2`` over messages with independent noise, at weights trained with float32 messages, with
    all other messages in float32: AdaQP's gradient variance if one point is quantized. The noise of different points is
    independent, so their variances approximately add up to that of all together.

    Args:
        system: system whose codec, bit-widths of epoch 0 and partitioner are used.
        model: settings of the model; its dropout is switched off.
        epochs: numbers of epochs trained before the gradient is measured.
        workers: threads of this process.
        repeats: passes, at least 2; the relative standard error of a variance is up to ``(2 / (repeats - 1))^(1/2)``.
        seeds: seeds of weights and noise.

    Returns:
        One line per epoch, seed and point (``everything`` last: all quantized): ``relative``, variance over squared
        gradient.

    Raises:
        ValueError: if the system's rows are not those of halo nodes, or ``repeats`` is below 2.
    """
    import pandas as pd

    shape, lines = replace(model, dropout=0.0, input_dropout=0.0), []
    points = points_of(graph, cut_graph(graph, system.partition, workers), system, shape)
    for seed in seeds:
        for epoch in epochs:
            weights = trained_weights(graph, shape, epoch, seed=seed)  # weights trained with float32 messages
            for point in (*points, EVERYTHING):
                # All other points in float32; for EVERYTHING the system is unchanged.
                other_points = [each for each in points if each != point]
                variant = system if point == EVERYTHING else exact_at(system, *other_points)
                noise = gradient_noise(
                    graph, variant.bits, shape, workers=workers, repeats=repeats, weights=weights, system=system,
                    codec=system.codec, seed=seed,
                )  # fmt: skip
                lines.append((epoch, seed, point, noise.relative))
    return pd.DataFrame(lines, columns=["epoch", "seed", "point", "relative"])


def loss_by_point(
    parts: Parts,
    system: System,
    *,
    model: ModelSettings,
    at: Sequence[str] | None = None,
    epochs: int = 60,
    since: int = 0,
    seeds: Sequence[int] = (0,),
    lr: float = 0.01,
) -> DataFrame:
    """Train per seed with the system as it is, with each point alone in float32 from an epoch on, and without rounding.

    All begin with the same weights and noise, so the difference between two trainings of one seed is due to the point.

    Args:
        parts: the partition.
        system: system to compare; its bit-widths must depend on settings and epoch only.
        model: settings of the model; its dropout is switched off.
        at: points to test; all by default.
        epochs: epochs of each training.
        since: first epoch in which a point is sent in float32.
        seeds: seeds of weights and noise.
        lr: learning rate of Adam.

    Returns:
        One line per seed and value of ``exact``, the point in float32 (``nothing``, each point, ``everything``):
        ``loss``, of the final weights with float32 messages; ``gained``, its difference below that of ``nothing``; and
        ``gradient``, the norm of the gradient there.

    Raises:
        ValueError: if training cannot be repeated in this process, see
        :func:`gnnqlab.course.experiments.rounded_rows.require_repeatable`.
    """
    import pandas as pd

    shape, lines = replace(model, dropout=0.0, input_dropout=0.0), []
    points = points_of(parts.graph, parts.cut, system, shape) if at is None else at
    # trainings to compare, by the point in float32
    variants = {NOTHING: system} | {point: exact_at(system, point, since=since) for point in points}
    variants[EVERYTHING] = exact_at(system, *DIRECTIONS, since=since)
    for seed in seeds:
        settings, truth = TrainSettings(seed=seed, lr=lr), exact_trainer(parts.graph, shape, seed=seed)
        outcomes = {}
        for name, variant in variants.items():
            workers, _ = threads_as_launched(parts.graph, parts.cut, variant, shape, settings)
            for epoch in range(epochs):
                workers.step(epoch)
            # Compare losses at the final weights with float32 messages, so that no message noise is in them.
            truth.parameters.values.copy_(workers.trainers[0].parameters.values)
            loss = truth.gradients(epochs)
            outcomes[name] = loss, float(truth.parameters.gradients.norm())
        rounded_loss = outcomes[NOTHING][0]  # reference: every point rounded
        lines += [(seed, name, loss, rounded_loss - loss, length) for name, (loss, length) in outcomes.items()]
    return pd.DataFrame(lines, columns=["seed", "exact", "loss", "gained", "gradient"])


def spread(frame: DataFrame, by: str, value: str) -> DataFrame:
    """Return mean and half the 95 % interval of column ``value``, grouped by column ``by`` in its order.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"point": ["forward 0"] * 3, "loss": [1.0, 2.0, 3.0]})
        >>> spread(frame, "point", "loss").loc["forward 0"].round(2).tolist()
        [2.0, 2.48]
    """
    import pandas as pd

    lines = {name: interval(part[value].tolist()) for name, part in frame.groupby(by, sort=False)}
    return pd.DataFrame.from_dict(lines, orient="index", columns=["mean", "half"]).rename_axis(by)
