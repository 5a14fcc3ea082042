"""The market environment: replay of cached days, fills, accounting, observations."""
