"""gnnqlab: a laboratory for quantized distributed full-graph GNN training.

    import gnnqlab as gq
    graph = gq.load("digits")
    run = gq.launch(graph, model="gcn", system="fixed-bits", bits=2, workers=2, epochs=60)
    run.wait()

Names are imported on demand, so that ``import gnnqlab`` is fast.
"""

from __future__ import annotations

import importlib
from typing import Any

from gnnqlab.attached import attach
from gnnqlab.by_name import near

__version__ = "0.9.0"

attach({
    "run.export": "gnnqlab.lab.training.report:export",
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
    "BFloat16": "gnnqlab.message",
    "BFloat16Rows": "gnnqlab.compute",
    "BoundarySampling": "gnnqlab.message",
    "Broadcast": "gnnqlab.exchange",
    "Contiguous": "gnnqlab.partition",
    "DNE": "gnnqlab.partition",
    "Difference": "gnnqlab.message",
    "EBV": "gnnqlab.partition",
    "EpochPlayer": "gnnqlab.course.players.epoch_player",
    "ExactActivations": "gnnqlab.compute",
    "ExactAt": "gnnqlab.bits",
    "FP8": "gnnqlab.message",
    "Feedback": "gnnqlab.message",
    "Fixed": "gnnqlab.bits",
    "Float32": "gnnqlab.message",
    "Graph": "gnnqlab.graph",
    "Growing": "gnnqlab.bits",
    "HDRF": "gnnqlab.partition",
    "HEP": "gnnqlab.partition",
    "HaloPlan": "gnnqlab.exchange",
    "Int8Products": "gnnqlab.compute",
    "LeastVariance": "gnnqlab.message",
    "Linear": "gnnqlab.message",
    "METIS": "gnnqlab.partition",
    "MODELS": "gnnqlab.nn.models",
    "MXFP8": "gnnqlab.message",
    "MessagePlayer": "gnnqlab.course.players.message_player",
    "Observer": "gnnqlab.observe",
    "Overlapped": "gnnqlab.exchange",
    "PartitionExplorer": "gnnqlab.course.players.partition_explorer",
    "Random": "gnnqlab.partition",
    "RandomEdges": "gnnqlab.partition",
    "Replicas": "gnnqlab.exchange",
    "Rotated": "gnnqlab.message",
    "Run": "gnnqlab.launch",
    "SYSTEMS": "gnnqlab.systems",
    "Sequential": "gnnqlab.exchange",
    "Spikes": "gnnqlab.message",
    "StaleBlocks": "gnnqlab.message",
    "Stochastic": "gnnqlab.message",
    "Study": "gnnqlab.study",
    "Synchronous": "gnnqlab.exchange",
    "System": "gnnqlab.systems",
    "Tuner": "gnnqlab.lab.tuner.tuner",
    "Unchanged": "gnnqlab.message",
    "UniformRandom": "gnnqlab.bits",
    "autotune": "gnnqlab.tune.autotune",
    "bench_results": "gnnqlab.results",
    "charts": "gnnqlab.lab.figures.charts",
    "cleanup": "gnnqlab.launch",
    "compare": "gnnqlab.lab.training",
    "configure": "gnnqlab.train.config.configure",
    "critical_path": "gnnqlab.lab.training.critical_path",
    "draw": "gnnqlab.lab.figures.graph_map",
    "errata": "gnnqlab.course.errata",
    "exact_at": "gnnqlab.systems",
    "exchange_rows": "gnnqlab.exchange",
    "export": "gnnqlab.lab.training.report",
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
    "register_model": "gnnqlab.nn.models",
    "register_system": "gnnqlab.systems",
    "resume": "gnnqlab.launch",
    "resume_on_machines": "gnnqlab.launch.on_machines",
    "runs": "gnnqlab.launch",
    "simulate": "gnnqlab.simulation.simulate",
    "systems": "gnnqlab.systems",
    "tango": "gnnqlab.nn.dgl",
    "testing": "gnnqlab.testing",
    "theory": "gnnqlab.theory",
    "to_dgl": "gnnqlab.graph",
}
"""Public name -> the module that defines it. The only list of public names; ``__init__.pyi`` has their types."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{near(name, __all__)}")
    home = importlib.import_module(_HOMES[name])
    # A sub-package with a function of its own name (partition, launch) is a callable module; charts are a module too.
    value = home if home.__name__ == f"{__name__}.{name}" or name == "charts" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, without the helpers of this file."""
    return sorted({*__all__, "__version__", "__doc__", "__name__"})
