"""Halo exchange under edge-cuts: embeddings of boundary nodes are sent to the workers that need them."""
