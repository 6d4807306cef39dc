"""What benchmarks share: repeats in turn, kept trainings, tables."""
