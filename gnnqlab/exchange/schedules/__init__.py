"""Schedules: the order of the steps of an aggregation."""
