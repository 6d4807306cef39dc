"""Schedules: order of communication and computation in an aggregation."""
