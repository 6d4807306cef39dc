"""The halo exchange of edge-cuts: embeddings of boundary nodes go to the workers that need them."""
