"""Figures of merit on tensors and arrays."""
