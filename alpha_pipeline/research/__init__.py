"""Cached days to fitted models: the steps that the main graph and every walk-forward fold share."""
