"""Numerical exercises: formulas over named numbers, and the kinds of mistakes in an answer."""
