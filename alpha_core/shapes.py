"""The letters of tensor shapes, and the sizes that the whole engine agrees on.

B batch, T time, F features, D model width, H heads, P head width, N state, A actions, Z atoms, K window,
R rows (decision points of a cached day or of several, concatenated), E environments in lockstep, L book levels.
"""

LEVELS = 10
FEATURES = 40
HORIZONS: tuple[int, ...] = (30, 100, 300, 1000, 6000)  # snapshots ahead
ACTIONS = 9
OBSERVATIONS = 10

UNDEFINED_TICKS = -(2**31)
"""Price of an absent level in the int32 `book` and `tape` blocks; its size is 0."""

MICRO = 1_000_000
"""Micro-ticks per tick: money in the environment is an int64 count of micro-ticks x lots."""
