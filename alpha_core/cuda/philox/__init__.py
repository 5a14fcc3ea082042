"""Uniforms of `alpha_core.rng` for a whole batch: the tensor's device chooses the form, the bits are the same."""

from alpha_core.cuda.philox.op import PHILOX, uniforms

__all__ = ["PHILOX", "uniforms"]
