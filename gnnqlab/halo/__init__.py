"""Halo exchange for any model: rows of other processes' nodes, in full precision or few bits; needs torch alone."""

from gnnqlab.halo.codec_choice import CodecChoice, choose_codec
from gnnqlab.halo.framework_plans import from_gp_context, from_halo_info, owner_of_dgl, owner_of_pyg, owner_of_sizes
from gnnqlab.halo.halo_plan import HaloPlan
from gnnqlab.halo.halo_rows import all_gather_rows, exchange_rows, reduce_rows
from gnnqlab.halo.local_edges import LocalEdges
from gnnqlab.halo.pending_exchange import PendingExchange, start_exchange
from gnnqlab.halo.rank_processes import run_on_ranks

__all__ = [
    "CodecChoice", "HaloPlan", "LocalEdges", "PendingExchange", "all_gather_rows", "choose_codec", "exchange_rows",
    "from_gp_context", "from_halo_info", "owner_of_dgl", "owner_of_pyg", "owner_of_sizes", "reduce_rows",
    "run_on_ranks", "start_exchange",
]  # fmt: skip
