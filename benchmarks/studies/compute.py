"""Products of bfloat16 rows compared with float32: time, memory and accuracy, in one process on one graph.

Dense products have the shapes of a layer of 256 columns on coauthor_physics. Epochs have 3 layers of 256 columns (other
models the depth of ``bench accuracy``), with both precisions in random order. Memory is the bytes saved for backward,
without parameters and features. Scores are on test nodes, of models with the size of ``bench accuracy``, trained from
the same weights with the same dropout.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engine.graphs import graph_or_digits
from benchmarks.engine.rows import paired_difference, require_among, row
from benchmarks.engine.trained import scores_of, study_rows, train_here
from benchmarks.kernels.pinned import Pair, by_threads, compare, next_epochs
from benchmarks.studies.accuracy import BESIDE, POINTS
from benchmarks.studies.accuracy import MODELS as DEPTHS
from gnnqlab.course.experiments.kept_bytes import saved_bytes_by_purpose

if TYPE_CHECKING:
    from gnnqlab.compute import Products
    from gnnqlab.graph import Graph
    from gnnqlab.nn import ModelSettings
    from gnnqlab.study import RunResult
    from gnnqlab.train.loop.trainer import Trainer

__all__ = ["compute", "instructions", "measure_products"]

GRAPH = "coauthor_physics"
MODELS = ("gcn", "graphsage", "gat")
ROWS, COLUMNS = 34_493, 256
WIDE = {"hidden": 256}  # wide layers, where products dominate
# Flag of the processor -> name of its bfloat16 instructions, the widest first.
_FLAGS = {"amx_bf16": "AMX", "avx512_bf16": "AVX512", "avx_ne_convert": "AVX2"}


def compute(
    repeats: int = 5,
    *,
    graph: str | None = None,
    models: tuple[str, ...] = MODELS,
    epochs: int = int(BESIDE["epochs"]),
    seeds: int = 5,
    first_seed: int = 0,
) -> list[dict[str, Any]]:
    """Measure both precisions.

    Args:
        repeats: interleaved products and epochs of each precision.
        graph: name or path; by default ``coauthor_physics``, or ``digits`` if it is missing.
        models: names of models.
        epochs, seeds: numbers of epochs and seeds of the trainings whose scores are compared; 0 seeds skip them.
        first_seed: first of the consecutive seeds.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.

    Raises:
        ValueError: if a model is unknown, or there is nothing to measure.
    """
    from gnnqlab.graph import load

    require_among("models", models, sorted(DEPTHS), least=1)
    if repeats < 1 or epochs < 1 or seeds < 0:
        raise ValueError(f"repeats and epochs must be at least 1, seeds 0, got {repeats}, {epochs} and {seeds}")
    source = graph_or_digits(graph, GRAPH)
    loaded_graph = load(source)
    rows = measure_products(repeats=repeats)
    for model in models:
        seed_range = range(first_seed, first_seed + seeds)
        rows += _of_model(loaded_graph, source, model, repeats, epochs, seed_range)
    return rows


def instructions() -> str:
    """Return the name of this processor's widest bfloat16 instructions.

    Example:
        >>> instructions() in ("bfloat16 by AMX", "bfloat16 by AVX512", "bfloat16 by AVX2", "bfloat16 widened")
        True
    """
    try:
        words = set(Path("/proc/cpuinfo").read_text().split())  # flags of all cores, as words
    except OSError:
        words = set()
    # "widened": products of float32 copies
    return "bfloat16 " + next((f"by {name}" for flag, name in _FLAGS.items() if flag in words), "widened")


@by_threads()
def measure_products(repeats: int) -> list[dict[str, Any]]:
    """Measure dense products, with the threads of this process."""
    import torch

    from gnnqlab.kernels.dense.dense import bfloat16_mm

    generator = torch.Generator().manual_seed(0)
    x, gradient = (torch.randn(ROWS, COLUMNS, generator=generator) for _ in range(2))
    weight = torch.randn(COLUMNS, COLUMNS, generator=generator)
    x16, gradient16, weight16 = x.bfloat16(), gradient.bfloat16(), weight.bfloat16()  # rounded before the measurement
    y, dw = torch.empty(ROWS, COLUMNS), torch.empty(COLUMNS, COLUMNS)
    contestants: dict[str, Callable[[], object]] = {
        "X W": lambda: bfloat16_mm(x16, weight16, out=y),
        "X.T dY": lambda: bfloat16_mm(x16.t(), gradient16, out=dw),
        "dY W.T": lambda: bfloat16_mm(gradient16, weight16.t(), out=y),
        "X rounded": lambda: x.bfloat16(),
        "float32 X W": lambda: torch.mm(x, weight, out=y),
        "float32 X.T dY": lambda: torch.mm(x.t(), gradient, out=dw),
        "float32 dY W.T": lambda: torch.mm(gradient, weight.t(), out=y),
        "float32 X rounded": lambda: y.copy_(x),
    }
    case = f"{ROWS} x {COLUMNS} by {COLUMNS} x {COLUMNS}, {torch.get_num_threads()} thread(s), {instructions()}"
    pairs = [Pair(f"{name} in bfloat16", name, f"float32 {name}", "float32") for name in ("X W", "X.T dY", "dY W.T")]
    # rounding itself, compared with a copy
    pairs.append(Pair("X rounded in bfloat16", "X rounded", "float32 X rounded", "float32, copied"))
    return compare(case, contestants, pairs, repeats)


def _of_model(graph: Graph, source: str, model: str, repeats: int, epochs: int, seeds: range) -> list[dict[str, Any]]:
    import torch

    case = f"{Path(source).stem}, {model}"
    wide_trainers = {name: _trainer(graph, model, name, 0, WIDE) for name in ("bfloat16", "float32")}
    saved_bytes = {  # bytes saved for backward
        name: sum(saved_bytes_by_purpose(graph, _shape(model, WIDE), _products(name)).values())
        for name in wide_trainers
    }
    shape = f"{case} {DEPTHS[model]['layers']} x {WIDE['hidden']}, {torch.get_num_threads()} thread(s), "
    shape += instructions()
    rows = [
        *compare(shape, next_epochs(wide_trainers), [Pair("epoch", "bfloat16", "float32")], repeats),
        row(
            shape, "kept for the backward pass", saved_bytes["bfloat16"], "B", "float32", saved_bytes["float32"],
            saved_bytes["float32"] / saved_bytes["bfloat16"],
        ),
    ]  # fmt: skip
    if not seeds:
        return rows
    with tempfile.TemporaryDirectory(prefix="gnnqlab-") as folder:
        return rows + study_rows(
            _score_row,
            dict.fromkeys(("bfloat16", "float32"), "vanilla"),  # the name of a contestant chooses its products
            case=f"{case} {{layers}} x {{hidden}}, {{epochs}} epochs, {{seeds}}",
            graphs=[source],
            models=[model],
            workers=1,
            seeds=len(seeds),
            first_seed=seeds.start,
            folder=folder,
            train=lambda cell, _: train_here(
                _trainer(graph, model, cell.contestant.name, cell.seed, {"hidden": BESIDE["hidden"]}), cell
            ),
            epochs=epochs,
            evaluate_every=0,
            hidden=BESIDE["hidden"],
            **DEPTHS[model],
        )


def _score_row(case: str, trainings: Mapping[str, Sequence[RunResult]]) -> list[dict[str, Any]]:
    scores, rival_scores = (scores_of(trainings[name]) for name in ("bfloat16", "float32"))
    difference, means = (
        paired_difference(scores, rival_scores),
        [100 * statistics.fmean(each) for each in (scores, rival_scores)],
    )
    rival = ("float32", means[1], POINTS / max(abs(difference.points), 1e-9), 1.0)  # allowed points over measured ones
    return [row(case, "test score", means[0], "%", *rival, detail=f", {difference}")]


def _shape(model: str, settings: dict[str, Any]) -> ModelSettings:
    from gnnqlab.nn import ModelSettings

    return ModelSettings(name=model, **{**DEPTHS[model], **settings})


def _products(precision: str) -> Products:
    from gnnqlab.systems.parts import PARTS

    products: Products = PARTS["compute"][precision]().build()
    return products


def _trainer(graph: Graph, model: str, precision: str, seed: int, settings: dict[str, Any]) -> Trainer:
    """Return the trainer of a whole graph in one process."""
    from gnnqlab.simulation.whole_graph import exact_trainer

    return exact_trainer(graph, _shape(model, settings), seed=seed, lr=BESIDE["lr"], products=_products(precision))
