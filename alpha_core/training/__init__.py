"""Fitting: perception, policy, checkpoints."""
