"""Common code of the benchmarks: interleaved repeats, stored trainings, tables."""
