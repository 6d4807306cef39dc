"""Stand-alone halo exchange, for models without gnnqlab's graphs or trainer."""
