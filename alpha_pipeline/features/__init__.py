"""Decision points, the 40 features, labels and the trade tape, computed causally from snapshots and trades.

Here: mathematics on one day's events. Not here: files of the cache (`alpha_pipeline.fxcache`), orchestration.
"""
