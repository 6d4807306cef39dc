"""Systems as choices along eight axes, and the recipes of published systems."""

from gnnqlab.systems.exact_at import exact_at
from gnnqlab.systems.recipes.adaqp import adaqp, adaqp_p, adaqp_q
from gnnqlab.systems.recipes.bns_gcn import bns_gcn
from gnnqlab.systems.recipes.cagnet import cagnet
from gnnqlab.systems.recipes.cdfgnn import cdfgnn
from gnnqlab.systems.recipes.exact import exact
from gnnqlab.systems.recipes.feature_parallel import feature_parallel
from gnnqlab.systems.recipes.gradients_only import gradients_only
from gnnqlab.systems.recipes.low_rank import low_rank
from gnnqlab.systems.recipes.pipegcn import pipegcn
from gnnqlab.systems.recipes.rotated import adaqp_r, sylvie_r
from gnnqlab.systems.recipes.sancus import sancus, sancus_q
from gnnqlab.systems.recipes.sar import sar
from gnnqlab.systems.recipes.sylvie import sylvie
from gnnqlab.systems.recipes.tango import tango, tango_int4
from gnnqlab.systems.recipes.uniform_bits import fixed_bits, random_bits
from gnnqlab.systems.recipes.vanilla import vanilla
from gnnqlab.systems.recipes.varco import varco
from gnnqlab.systems.registry import SYSTEMS, make_system, register_system
from gnnqlab.systems.system import System

__all__ = [
    "SYSTEMS",
    "System",
    "adaqp",
    "adaqp_p",
    "adaqp_q",
    "adaqp_r",
    "bns_gcn",
    "cagnet",
    "cdfgnn",
    "exact",
    "exact_at",
    "feature_parallel",
    "fixed_bits",
    "gradients_only",
    "low_rank",
    "make_system",
    "pipegcn",
    "random_bits",
    "register_system",
    "sancus",
    "sancus_q",
    "sar",
    "sylvie",
    "sylvie_r",
    "tango",
    "tango_int4",
    "vanilla",
    "varco",
]
