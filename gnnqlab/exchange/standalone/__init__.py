"""The halo exchange alone, for any model."""
