"""Systems as choices along eight axes: one recipe a file."""

from gnnqlab.systems.adaqp import adaqp, adaqp_p, adaqp_q
from gnnqlab.systems.bns_gcn import bns_gcn
from gnnqlab.systems.cagnet import cagnet
from gnnqlab.systems.cdfgnn import cdfgnn
from gnnqlab.systems.exact_at import exact_at
from gnnqlab.systems.pipegcn import pipegcn
from gnnqlab.systems.rotated import adaqp_r, sylvie_r
from gnnqlab.systems.sancus import sancus, sancus_q
from gnnqlab.systems.sar import sar
from gnnqlab.systems.sylvie import sylvie
from gnnqlab.systems.system import SYSTEMS, System, make_system, register_system
from gnnqlab.systems.uniform_bits import fixed_bits, random_bits
from gnnqlab.systems.vanilla import vanilla
from gnnqlab.systems.varco import varco

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
    "exact_at",
    "fixed_bits",
    "make_system",
    "pipegcn",
    "random_bits",
    "register_system",
    "sancus",
    "sancus_q",
    "sar",
    "sylvie",
    "sylvie_r",
    "vanilla",
    "varco",
]
