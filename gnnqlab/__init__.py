"""gnnqlab: a laboratory for quantized distributed full-graph GNN training.

    import gnnqlab as gq
    graph = gq.load("digits")
    run = gq.launch(graph, model="gcn", system="fixed-bits", bits=2, workers=2, epochs=60)
    run.wait()

Names are imported on demand, so that ``import gnnqlab`` is fast.
"""

from __future__ import annotations

import importlib
import operator
import sys
import warnings
from typing import Any

from gnnqlab.attached import attach
from gnnqlab.by_name import did_you_mean

__version__ = "0.9.0"

# Methods of low layers that are implemented in higher ones; nothing is imported here.
attach({
    "course.grade": "gnnqlab.course.teacher.reports:grade_class",
    "course.pack": "gnnqlab.course.teacher.pack:write_pack",
    "graph.to_dgl": "gnnqlab.graph.convert.frameworks:to_dgl",
    "parts.draw": "gnnqlab.lab.figures.graph_map:draw",
    "run.critical_path": "gnnqlab.lab.training.critical_path:critical_path",
    "run.export": "gnnqlab.lab.training.report:export",
    "run.export.mlflow": "gnnqlab.run.trackers.mlflow:export_mlflow",
    "run.export.parquet": "gnnqlab.run.trackers.parquet:export_parquet",
    "run.export.tensorboard": "gnnqlab.run.trackers.tensorboard:export_tensorboard",
    "run.export.trackio": "gnnqlab.run.trackers.trackio:export_trackio",
    "run.export.wandb": "gnnqlab.run.trackers.wandb:export_wandb",
    "run.export_trace": "gnnqlab.lab.training.trace:export_trace",
    "run.live": "gnnqlab.lab.training.live:LiveView",
    "run.resume": "gnnqlab.launch.continuation:resume",
    "runs.browse": "gnnqlab.lab.listing.browser:RunBrowser",
    "theory.CacheError": "gnnqlab.simulation.cache_check:CacheError",
    "theory.TheoryCheck": "gnnqlab.simulation.run_check:TheoryCheck",
    "theory.cache_error": "gnnqlab.simulation.cache_check:cache_error",
    "theory.check": "gnnqlab.simulation.run_check:check",
    "theory.convergence": "gnnqlab.simulation.convergence_check:convergence",
})  # fmt: skip

_HOMES = {
    "Graph": "gnnqlab.graph",
    "HaloPlan": "gnnqlab.halo",
    "Observer": "gnnqlab.observe",
    "Run": "gnnqlab.launch",
    "Slurm": "gnnqlab.launch",
    "Study": "gnnqlab.study",
    "System": "gnnqlab.systems",
    "Tuner": "gnnqlab.lab.tuner.tuner",
    "autotune": "gnnqlab.tune.autotune",
    "compare": "gnnqlab.lab.training",
    "configure": "gnnqlab.train.config.configure",
    "errata": "gnnqlab.course.errata",
    "exchange_rows": "gnnqlab.halo",
    "from_dgl": "gnnqlab.graph",
    "from_networkx": "gnnqlab.graph",
    "from_pyg": "gnnqlab.graph",
    "from_scipy": "gnnqlab.graph",
    "from_tables": "gnnqlab.graph",
    "load": "gnnqlab.graph",
    "probe": "gnnqlab.tune.probe",
    "read_edges": "gnnqlab.graph",
    "recommend": "gnnqlab.tune.recommendation",
    "resume": "gnnqlab.launch",
    "runs": "gnnqlab.launch",
    "simulate": "gnnqlab.simulation.simulate",
    "tango": "gnnqlab.nn.dgl",
}
"""Public class or function -> the module that defines it."""
_MODULES = {
    "bits": "gnnqlab.bits",
    "caches": "gnnqlab.message.caches",
    "charts": "gnnqlab.lab.figures.charts",
    "codecs": "gnnqlab.message.codecs",
    "compute": "gnnqlab.compute",
    "course": "gnnqlab.course",
    "exchanges": "gnnqlab.exchange.exchanges",
    "launch": "gnnqlab.launch",
    "models": "gnnqlab.nn.models",
    "objectives": "gnnqlab.train.objectives",
    "partition": "gnnqlab.partition",
    "partitioners": "gnnqlab.partition.partitioners",
    "presets": "gnnqlab.train.config.presets",
    "results": "gnnqlab.results",
    "samplers": "gnnqlab.message.samplers",
    "schedules": "gnnqlab.exchange.schedules",
    "systems": "gnnqlab.systems",
    "testing": "gnnqlab.testing",
    "theory": "gnnqlab.theory",
}
"""Public module -> its full name. Eight hold the exchangeable parts of a system, one axis each; ``launch`` and
``partition`` are callable, too.

The two tables are the only list of public names; ``__init__.pyi`` has their types.
"""
_OF_HALO = ("all_gather_rows", "choose_codec", "halo", "reduce_rows", "start_exchange")
"""Further names: `gnnqlab.halo` and its functions, all of which are public there."""
_FORMER = {
    "codecs": ("BFloat16", "FP8", "Float32", "LeastVariance", "Linear", "MXFP8", "Rotated", "Spikes", "Stochastic"),
    "caches": ("AdaptiveCache", "Difference", "Feedback", "StaleBlocks", "Unchanged"),
    "samplers": ("BoundarySampling",),
    "bits": ("ExactAt", "Fixed", "Growing", "UniformRandom"),
    "compute": ("BFloat16Rows", "ExactActivations", "Int8Products"),
    "schedules": ("Overlapped", "Sequential", "Synchronous"),
    "exchanges": ("Broadcast", "Replicas"),
    "partitioners": ("Contiguous", "DNE", "EBV", "HDRF", "HEP", "METIS", "Random", "RandomEdges"),
    "course": ("AssignerPlayer", "EpochPlayer", "MessagePlayer", "PartitionExplorer"),
    "models": ("MODELS", "register_model"),
    "systems": ("SYSTEMS", "exact_at", "register_system"),
    "presets": ("preset", "preset_system"),
    "results": ("bench_results",),
    "launch": ("cleanup", "on_machines", "resume_on_machines"),
    "Run": ("critical_path", "export", "export_trace"),
    "Graph": ("to_dgl",),
    "partition.Parts": ("draw",),
}
"""Present module or class -> names that were at the top level until version 0.9."""

__all__ = sorted(_HOMES | _MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = importlib.import_module(_MODULES[name])
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _OF_HALO:
        module = importlib.import_module("gnnqlab.halo")
        value = module if name == "halo" else getattr(module, name)
    else:
        return _former(name)
    globals()[name] = value  # later accesses do not call this function
    return value


def _former(name: str) -> Any:
    """Return a public name that has moved, with a warning; it is not stored, so that each use warns."""
    for module, names in _FORMER.items():
        if name in names:
            # Level 3 is the line that reads the name, above `__getattr__` and this function.
            warnings.warn(f"gnnqlab.{name} is gnnqlab.{module}.{name} now", DeprecationWarning, stacklevel=3)
            return operator.attrgetter(f"{module}.{name}")(sys.modules[__name__])
    hint = "" if name.startswith("_") else did_you_mean(name, __all__)  # tools look for many private names
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    """Return the public names, without the helpers of this file."""
    return sorted({*__all__, "__version__", "__doc__", "__name__"})


if "IPython" in sys.modules and (_shell := sys.modules["IPython"].get_ipython()) is not None:
    importlib.import_module("gnnqlab.short_errors").install(_shell)
