"""The bit-width assigner of AdaQP: groups of rows, the two objectives, and exact solvers."""
