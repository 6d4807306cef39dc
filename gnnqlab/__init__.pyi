"""Types of the public names for checkers and editors: each is imported from the module that defines it.

``__init__.py`` imports them on demand; a test compares the two files.
"""

from gnnqlab import bits as bits
from gnnqlab import compute as compute
from gnnqlab import course as course
from gnnqlab import results as results
from gnnqlab import systems as systems
from gnnqlab import testing as testing
from gnnqlab import theory as theory
from gnnqlab.course.errata import errata as errata
from gnnqlab.exchange import exchanges as exchanges
from gnnqlab.exchange import schedules as schedules
from gnnqlab.graph.convert.frameworks import from_dgl as from_dgl
from gnnqlab.graph.convert.frameworks import from_pyg as from_pyg
from gnnqlab.graph.convert.given import GraphLike as _GraphLike
from gnnqlab.graph.convert.networkx_graphs import from_networkx as from_networkx
from gnnqlab.graph.convert.scipy_matrices import from_scipy as from_scipy
from gnnqlab.graph.graph import Graph as Graph
from gnnqlab.graph.sources.catalogue import load as load
from gnnqlab.graph.sources.tables import from_tables as from_tables
from gnnqlab.graph.sources.tables import read_edges as read_edges
from gnnqlab.halo.halo_plan import HaloPlan as HaloPlan
from gnnqlab.halo.halo_rows import exchange_rows as exchange_rows
from gnnqlab.lab.figures import charts as charts
from gnnqlab.lab.training.compare import compare as compare
from gnnqlab.lab.tuner.tuner import Tuner as Tuner
from gnnqlab.launch.continuation import resume as resume
from gnnqlab.launch.launch_call import LaunchCall as _LaunchCall
from gnnqlab.launch.leftovers import cleanup as _cleanup
from gnnqlab.launch.machines import on_machines as _on_machines
from gnnqlab.launch.machines import resume_on_machines as _resume_on_machines
from gnnqlab.launch.slurm import Slurm as Slurm
from gnnqlab.message import caches as caches
from gnnqlab.message import codecs as codecs
from gnnqlab.message import samplers as samplers
from gnnqlab.nn import models as models
from gnnqlab.nn.dgl import tango as tango
from gnnqlab.observe import Observer as Observer
from gnnqlab.partition import partitioners as partitioners
from gnnqlab.partition.cut import Partitioner as _Partitioner
from gnnqlab.partition.parts import Parts as _Parts
from gnnqlab.run.run import Run as Run
from gnnqlab.run.run import runs as runs
from gnnqlab.simulation.simulate import simulate as simulate
from gnnqlab.study.study import Study as Study
from gnnqlab.systems.system import System as System
from gnnqlab.train import objectives as objectives
from gnnqlab.train.config import presets as presets
from gnnqlab.train.config.configure import configure as configure
from gnnqlab.tune.autotune import autotune as autotune
from gnnqlab.tune.probe import probe as probe
from gnnqlab.tune.recommendation.recommend import recommend as recommend

class _Launch(_LaunchCall):  # the callable module gnnqlab.launch
    cleanup = staticmethod(_cleanup)
    on_machines = staticmethod(_on_machines)
    resume_on_machines = staticmethod(_resume_on_machines)

class _Partition:  # the callable module gnnqlab.partition
    def __call__(
        self,
        graph: _GraphLike,
        partitioner: _Partitioner | None = None,
        *,
        workers: int | None = None,
        hosts: int = 1,
        per_host: int | None = None,
    ) -> _Parts: ...
    Parts = _Parts

launch: _Launch
partition: _Partition

__version__: str
__all__: list[str]
_HOMES: dict[str, str]
_MODULES: dict[str, str]
_FORMER: dict[str, tuple[str, ...]]
