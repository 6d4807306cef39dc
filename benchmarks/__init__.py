"""The measurements behind every number in the README."""
