"""Caches: skip rows that changed little since they were last sent; and error feedback."""
