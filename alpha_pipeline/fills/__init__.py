"""How likely a passive order fills: hypothetical orders replayed through history, and the intensity fitted
to them.

Here: the replay, the exposures, the regression, its validation and its file. Not here: the form of the
    intensity and
its use in a rollout, which are `alpha_core.market.fills`; Dagster.
"""
