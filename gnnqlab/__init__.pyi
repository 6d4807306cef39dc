"""Types of the public names for checkers and editors: each is imported from the module that defines it.

``__init__.py`` imports them on demand; a test compares the two files.
"""

from gnnqlab import systems as systems
from gnnqlab import testing as testing
from gnnqlab import theory as theory
from gnnqlab.bits.exact_at import ExactAt as ExactAt
from gnnqlab.bits.growing import Growing as Growing
from gnnqlab.bits.policy import Fixed as Fixed
from gnnqlab.bits.policy import UniformRandom as UniformRandom
from gnnqlab.compute.bfloat16 import BFloat16Rows as BFloat16Rows
from gnnqlab.compute.exact import ExactActivations as ExactActivations
from gnnqlab.compute.int8 import Int8Products as Int8Products
from gnnqlab.course.errata import errata as errata
from gnnqlab.course.players.assigner_player import AssignerPlayer as AssignerPlayer
from gnnqlab.course.players.epoch_player import EpochPlayer as EpochPlayer
from gnnqlab.course.players.message_player import MessagePlayer as MessagePlayer
from gnnqlab.course.players.partition_explorer import PartitionExplorer as PartitionExplorer
from gnnqlab.exchange.broadcast.exchange import Broadcast as Broadcast
from gnnqlab.exchange.schedules.schedule import Overlapped as Overlapped
from gnnqlab.exchange.schedules.schedule import Synchronous as Synchronous
from gnnqlab.exchange.schedules.sequential import Sequential as Sequential
from gnnqlab.exchange.standalone.halo_plan import HaloPlan as HaloPlan
from gnnqlab.exchange.standalone.halo_rows import exchange_rows as exchange_rows
from gnnqlab.exchange.vertex_cut.exchange import Replicas as Replicas
from gnnqlab.graph.convert.frameworks import from_dgl as from_dgl
from gnnqlab.graph.convert.frameworks import from_pyg as from_pyg
from gnnqlab.graph.convert.frameworks import to_dgl as to_dgl
from gnnqlab.graph.convert.networkx_graphs import from_networkx as from_networkx
from gnnqlab.graph.convert.scipy_matrices import from_scipy as from_scipy
from gnnqlab.graph.graph import Graph as Graph
from gnnqlab.graph.sources.catalogue import load as load
from gnnqlab.graph.sources.tables import from_tables as from_tables
from gnnqlab.lab.figures import charts as charts
from gnnqlab.lab.figures.graph_map import draw as draw
from gnnqlab.lab.training.compare import compare as compare
from gnnqlab.lab.training.critical_path import critical_path as critical_path
from gnnqlab.lab.training.report import export as export
from gnnqlab.lab.training.trace import export_trace as export_trace
from gnnqlab.lab.tuner.tuner import Tuner as Tuner
from gnnqlab.launch.continuation import resume as resume
from gnnqlab.launch.leftovers import cleanup as cleanup
from gnnqlab.launch.on_machines import on_machines as on_machines
from gnnqlab.launch.on_machines import resume_on_machines as resume_on_machines
from gnnqlab.launch.start import launch as launch
from gnnqlab.message.caches.adaptive_cache import AdaptiveCache as AdaptiveCache
from gnnqlab.message.caches.cache import Unchanged as Unchanged
from gnnqlab.message.caches.difference import Difference as Difference
from gnnqlab.message.caches.feedback import Feedback as Feedback
from gnnqlab.message.caches.stale_blocks import StaleBlocks as StaleBlocks
from gnnqlab.message.codecs.bfloat16 import BFloat16 as BFloat16
from gnnqlab.message.codecs.codec import Float32 as Float32
from gnnqlab.message.codecs.codec import Stochastic as Stochastic
from gnnqlab.message.codecs.fp8 import FP8 as FP8
from gnnqlab.message.codecs.fp8 import MXFP8 as MXFP8
from gnnqlab.message.codecs.least_variance import LeastVariance as LeastVariance
from gnnqlab.message.codecs.linear import Linear as Linear
from gnnqlab.message.codecs.rotated import Rotated as Rotated
from gnnqlab.message.codecs.spikes import Spikes as Spikes
from gnnqlab.message.sampler import BoundarySampling as BoundarySampling
from gnnqlab.nn.dgl import tango as tango
from gnnqlab.nn.models import MODELS as MODELS
from gnnqlab.nn.models.registry import register_model as register_model
from gnnqlab.observe import Observer as Observer
from gnnqlab.partition.contiguous import Contiguous as Contiguous
from gnnqlab.partition.dne import DNE as DNE
from gnnqlab.partition.ebv import EBV as EBV
from gnnqlab.partition.edge_cut import METIS as METIS
from gnnqlab.partition.edge_cut import Random as Random
from gnnqlab.partition.hep import HEP as HEP
from gnnqlab.partition.parts import partition as partition
from gnnqlab.partition.streamed import HDRF as HDRF
from gnnqlab.partition.streamed import RandomEdges as RandomEdges
from gnnqlab.results import bench_results as bench_results
from gnnqlab.run.run import Run as Run
from gnnqlab.run.run import runs as runs
from gnnqlab.simulation.simulate import simulate as simulate
from gnnqlab.study.study import Study as Study
from gnnqlab.systems import SYSTEMS as SYSTEMS
from gnnqlab.systems.exact_at import exact_at as exact_at
from gnnqlab.systems.system import System as System
from gnnqlab.systems.system import register_system as register_system
from gnnqlab.train.config.configure import configure as configure
from gnnqlab.train.config.presets import preset as preset
from gnnqlab.train.config.presets import preset_system as preset_system
from gnnqlab.tune.autotune import autotune as autotune
from gnnqlab.tune.probe import probe as probe

__version__: str
__all__: list[str]
_HOMES: dict[str, str]
