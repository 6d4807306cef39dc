"""Caches: which rows of a message changed enough to be sent again."""
