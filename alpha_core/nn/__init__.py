"""Blocks and networks; forward() over a sequence and step() with carried state agree."""
