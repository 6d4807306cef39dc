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

__version__ = "0.1.0"

attach({
    "run.export": "gnnqlab.lab.training.export:export",
    "run.live": "gnnqlab.lab.training.live:LiveView",
    "run.resume": "gnnqlab.launch.continuation:resume",
    "theory.CacheError": "gnnqlab.measure.cache_check:CacheError",
    "theory.TheoryCheck": "gnnqlab.measure.run_check:TheoryCheck",
    "theory.cache_error": "gnnqlab.measure.cache_check:cache_error",
    "theory.check": "gnnqlab.measure.run_check:check",
    "theory.convergence": "gnnqlab.measure.convergence_check:convergence",
})  # fmt: skip

_HOMES = {
    "AdaptiveCache": "gnnqlab.message",
    "AssignerPlayer": "gnnqlab.lab.players.assigner_player",
    "BFloat16Rows": "gnnqlab.compute",
    "BoundarySampling": "gnnqlab.message",
    "Broadcast": "gnnqlab.exchange",
    "Contiguous": "gnnqlab.partition",
    "DNE": "gnnqlab.partition",
    "EBV": "gnnqlab.partition",
    "ExactActivations": "gnnqlab.compute",
    "Fixed": "gnnqlab.bits",
    "Float32": "gnnqlab.message",
    "Graph": "gnnqlab.graph",
    "Growing": "gnnqlab.bits",
    "HDRF": "gnnqlab.partition",
    "HEP": "gnnqlab.partition",
    "Int8Products": "gnnqlab.compute",
    "METIS": "gnnqlab.partition",
    "Linear": "gnnqlab.message",
    "MessagePlayer": "gnnqlab.lab.players.message_player",
    "Overlapped": "gnnqlab.exchange",
    "MODELS": "gnnqlab.nn.models",
    "PartitionExplorer": "gnnqlab.lab.players.partition_explorer",
    "Random": "gnnqlab.partition",
    "RandomEdges": "gnnqlab.partition",
    "Replicas": "gnnqlab.exchange",
    "Run": "gnnqlab.launch",
    "SYSTEMS": "gnnqlab.systems",
    "Tuner": "gnnqlab.lab.tuner.tuner",
    "StaleBlocks": "gnnqlab.message",
    "Stochastic": "gnnqlab.message",
    "Sequential": "gnnqlab.exchange",
    "Synchronous": "gnnqlab.exchange",
    "System": "gnnqlab.systems",
    "Unchanged": "gnnqlab.message",
    "UniformRandom": "gnnqlab.bits",
    "autotune": "gnnqlab.tune.autotune",
    "tango": "gnnqlab.nn.dgl",
    "bench_results": "gnnqlab.bench.results",
    "cleanup": "gnnqlab.launch",
    "compare": "gnnqlab.lab.training",
    "configure": "gnnqlab.train.configure",
    "errata": "gnnqlab.lab.course.errata",
    "export": "gnnqlab.lab.training.export",
    "from_dgl": "gnnqlab.graph",
    "from_pyg": "gnnqlab.graph",
    "launch": "gnnqlab.launch",
    "load": "gnnqlab.graph",
    "partition": "gnnqlab.partition",
    "preset": "gnnqlab.train.presets",
    "preset_system": "gnnqlab.train.presets",
    "probe": "gnnqlab.tune.probe",
    "register_model": "gnnqlab.nn.models",
    "register_system": "gnnqlab.systems",
    "resume": "gnnqlab.launch",
    "runs": "gnnqlab.launch",
    "systems": "gnnqlab.systems",
    "theory": "gnnqlab.theory",
}

__all__ = [
    "MODELS",
    "METIS",
    "SYSTEMS",
    "AdaptiveCache",
    "AssignerPlayer",
    "BFloat16Rows",
    "BoundarySampling",
    "ExactActivations",
    "Fixed",
    "Float32",
    "Graph",
    "Growing",
    "Int8Products",
    "Linear",
    "MessagePlayer",
    "Overlapped",
    "PartitionExplorer",
    "Random",
    "Replicas",
    "Run",
    "Sequential",
    "Stochastic",
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
    "errata",
    "export",
    "from_dgl",
    "from_pyg",
    "launch",
    "load",
    "partition",
    "preset",
    "preset_system",
    "probe",
    "register_model",
    "register_system",
    "resume",
    "runs",
    "systems",
    "tango",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(_HOMES[name])
    # A room with a verb of its own name (partition, launch) is a module that can be called.
    value = home if home.__name__ == f"{__name__}.{name}" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


if TYPE_CHECKING:
    from gnnqlab import systems, theory
    from gnnqlab.bench.results import bench_results
    from gnnqlab.bits import Fixed, Growing, UniformRandom
    from gnnqlab.compute import BFloat16Rows, ExactActivations, Int8Products
    from gnnqlab.exchange import Overlapped, Replicas, Synchronous
    from gnnqlab.graph import Graph, from_dgl, from_pyg, load
    from gnnqlab.lab.course.errata import errata
    from gnnqlab.lab.players.assigner_player import AssignerPlayer
    from gnnqlab.lab.players.message_player import MessagePlayer
    from gnnqlab.lab.players.partition_explorer import PartitionExplorer
    from gnnqlab.lab.training import compare
    from gnnqlab.lab.training.export import export
    from gnnqlab.lab.tuner.tuner import Tuner
    from gnnqlab.launch import Run, cleanup, resume, runs
    from gnnqlab.launch.start import launch
    from gnnqlab.message import AdaptiveCache, BoundarySampling, Float32, Linear, Stochastic, Unchanged
    from gnnqlab.nn.models import MODELS, register_model
    from gnnqlab.partition import METIS, Random, partition
    from gnnqlab.systems import SYSTEMS, System, register_system
    from gnnqlab.train.configure import configure
    from gnnqlab.train.presets import preset, preset_system
    from gnnqlab.tune.autotune import autotune
    from gnnqlab.tune.probe import probe
