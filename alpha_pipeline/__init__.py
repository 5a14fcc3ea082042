"""Data, statistics, orchestration and people, on top of `alpha_core`."""
