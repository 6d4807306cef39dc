"""Worked models of other fields on several ranks: weather, flow and a crystal, in plain PyTorch with `gnnqlab.halo`."""
