"""gnnqlab: a laboratory for quantized distributed full-graph GNN training.

    import gnnqlab as gq
    graph = gq.load("digits")
    run = gq.launch(graph, model="gcn", system="fixed-bits", bits=2, workers=2, epochs=60)
    run.wait()

Names come on demand, so that ``import gnnqlab`` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gnnqlab.attached import attach
from gnnqlab.by_name import near

__version__ = "0.1.0"

attach({
    "run.export": "gnnqlab.lab.training.export:export",
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
    "AdaptiveCache": "gnnqlab.message",
    "AssignerPlayer": "gnnqlab.course.players.assigner_player",
    "BFloat16Rows": "gnnqlab.compute",
    "BoundarySampling": "gnnqlab.message",
    "Broadcast": "gnnqlab.exchange",
    "Contiguous": "gnnqlab.partition",
    "DNE": "gnnqlab.partition",
    "Difference": "gnnqlab.message",
    "EBV": "gnnqlab.partition",
    "ExactActivations": "gnnqlab.compute",
    "ExactAt": "gnnqlab.bits",
    "BFloat16": "gnnqlab.message",
    "FP8": "gnnqlab.message",
    "EpochPlayer": "gnnqlab.course.players.epoch_player",
    "Feedback": "gnnqlab.message",
    "Fixed": "gnnqlab.bits",
    "Float32": "gnnqlab.message",
    "Graph": "gnnqlab.graph",
    "Growing": "gnnqlab.bits",
    "HDRF": "gnnqlab.partition",
    "HEP": "gnnqlab.partition",
    "HaloPlan": "gnnqlab.exchange",
    "Int8Products": "gnnqlab.compute",
    "METIS": "gnnqlab.partition",
    "MXFP8": "gnnqlab.message",
    "LeastVariance": "gnnqlab.message",
    "Linear": "gnnqlab.message",
    "MessagePlayer": "gnnqlab.course.players.message_player",
    "Overlapped": "gnnqlab.exchange",
    "MODELS": "gnnqlab.nn.models",
    "PartitionExplorer": "gnnqlab.course.players.partition_explorer",
    "Random": "gnnqlab.partition",
    "RandomEdges": "gnnqlab.partition",
    "Replicas": "gnnqlab.exchange",
    "Rotated": "gnnqlab.message",
    "Run": "gnnqlab.launch",
    "SYSTEMS": "gnnqlab.systems",
    "Tuner": "gnnqlab.lab.tuner.tuner",
    "Spikes": "gnnqlab.message",
    "StaleBlocks": "gnnqlab.message",
    "Stochastic": "gnnqlab.message",
    "Study": "gnnqlab.study",
    "Sequential": "gnnqlab.exchange",
    "Synchronous": "gnnqlab.exchange",
    "System": "gnnqlab.systems",
    "Unchanged": "gnnqlab.message",
    "UniformRandom": "gnnqlab.bits",
    "autotune": "gnnqlab.tune.autotune",
    "tango": "gnnqlab.nn.dgl",
    "bench_results": "gnnqlab.results",
    "cleanup": "gnnqlab.launch",
    "compare": "gnnqlab.lab.training",
    "configure": "gnnqlab.train.config.configure",
    "critical_path": "gnnqlab.lab.training.critical_path",
    "draw": "gnnqlab.lab.figures.graph_map",
    "errata": "gnnqlab.course.errata",
    "exact_at": "gnnqlab.systems",
    "exchange_rows": "gnnqlab.exchange",
    "export": "gnnqlab.lab.training.export",
    "export_trace": "gnnqlab.lab.training.trace",
    "from_dgl": "gnnqlab.graph",
    "from_networkx": "gnnqlab.graph",
    "from_pyg": "gnnqlab.graph",
    "from_scipy": "gnnqlab.graph",
    "from_tables": "gnnqlab.graph",
    "launch": "gnnqlab.launch",
    "load": "gnnqlab.graph",
    "on_machines": "gnnqlab.launch.on_machines",
    "partition": "gnnqlab.partition",
    "preset": "gnnqlab.train.config.presets",
    "preset_system": "gnnqlab.train.config.presets",
    "probe": "gnnqlab.tune.probe",
    "simulate": "gnnqlab.simulation.simulate",
    "Observer": "gnnqlab.observe",
    "register_model": "gnnqlab.nn.models",
    "register_system": "gnnqlab.systems",
    "resume": "gnnqlab.launch",
    "resume_on_machines": "gnnqlab.launch.on_machines",
    "runs": "gnnqlab.launch",
    "systems": "gnnqlab.systems",
    "testing": "gnnqlab.testing",
    "theory": "gnnqlab.theory",
    "to_dgl": "gnnqlab.graph",
}

__all__ = [
    "DNE",
    "EBV",
    "FP8",
    "HDRF",
    "HEP",
    "METIS",
    "MODELS",
    "MXFP8",
    "SYSTEMS",
    "AdaptiveCache",
    "AssignerPlayer",
    "BFloat16",
    "BFloat16Rows",
    "BoundarySampling",
    "Broadcast",
    "Contiguous",
    "Difference",
    "EpochPlayer",
    "ExactActivations",
    "ExactAt",
    "Feedback",
    "Fixed",
    "Float32",
    "Graph",
    "Growing",
    "HaloPlan",
    "Int8Products",
    "LeastVariance",
    "Linear",
    "MessagePlayer",
    "Overlapped",
    "PartitionExplorer",
    "Random",
    "RandomEdges",
    "Replicas",
    "Rotated",
    "Run",
    "Sequential",
    "Spikes",
    "StaleBlocks",
    "Stochastic",
    "Study",
    "Synchronous",
    "System",
    "Tuner",
    "Unchanged",
    "UniformRandom",
    "autotune",
    "bench_results",
    "cleanup",
    "compare",
    "configure",
    "critical_path",
    "draw",
    "errata",
    "exact_at",
    "exchange_rows",
    "export",
    "export_trace",
    "from_dgl",
    "from_networkx",
    "from_pyg",
    "from_scipy",
    "from_tables",
    "launch",
    "load",
    "on_machines",
    "partition",
    "preset",
    "preset_system",
    "probe",
    "simulate",
    "Observer",
    "register_model",
    "register_system",
    "resume",
    "resume_on_machines",
    "runs",
    "systems",
    "tango",
    "testing",
    "theory",
    "to_dgl",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{near(name, __all__)}")
    home = importlib.import_module(_HOMES[name])
    # A room with a verb of its own name (partition, launch) is a module that can be called.
    value = home if home.__name__ == f"{__name__}.{name}" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return what a user may name: no helper of this file."""
    return sorted({*__all__, "__version__", "__doc__", "__name__"})


if TYPE_CHECKING:
    from gnnqlab import systems, testing, theory
    from gnnqlab.bits import ExactAt, Fixed, Growing, UniformRandom
    from gnnqlab.compute import BFloat16Rows, ExactActivations, Int8Products
    from gnnqlab.course.errata import errata
    from gnnqlab.course.players.assigner_player import AssignerPlayer
    from gnnqlab.course.players.epoch_player import EpochPlayer
    from gnnqlab.course.players.message_player import MessagePlayer
    from gnnqlab.course.players.partition_explorer import PartitionExplorer
    from gnnqlab.exchange import Broadcast, HaloPlan, Overlapped, Replicas, Sequential, Synchronous, exchange_rows
    from gnnqlab.graph import Graph, from_dgl, from_networkx, from_pyg, from_scipy, from_tables, load, to_dgl
    from gnnqlab.lab.figures.graph_map import draw
    from gnnqlab.lab.training.compare import compare
    from gnnqlab.lab.training.critical_path import critical_path
    from gnnqlab.lab.training.export import export
    from gnnqlab.lab.training.trace import export_trace
    from gnnqlab.lab.tuner.tuner import Tuner
    from gnnqlab.launch import Run, cleanup, resume, runs
    from gnnqlab.launch.on_machines import on_machines, resume_on_machines
    from gnnqlab.launch.start import launch
    from gnnqlab.message import (
        FP8,
        MXFP8,
        AdaptiveCache,
        BFloat16,
        BoundarySampling,
        Difference,
        Feedback,
        Float32,
        LeastVariance,
        Linear,
        Rotated,
        Spikes,
        StaleBlocks,
        Stochastic,
        Unchanged,
    )
    from gnnqlab.nn.dgl import tango
    from gnnqlab.nn.models import MODELS, register_model
    from gnnqlab.observe import Observer
    from gnnqlab.partition import DNE, EBV, HDRF, HEP, METIS, Contiguous, Random, RandomEdges, partition
    from gnnqlab.results import bench_results
    from gnnqlab.simulation.simulate import simulate
    from gnnqlab.study import Study
    from gnnqlab.systems import SYSTEMS, System, exact_at, register_system
    from gnnqlab.train.config.configure import configure
    from gnnqlab.train.config.presets import preset, preset_system
    from gnnqlab.tune.autotune import autotune
    from gnnqlab.tune.probe import probe
