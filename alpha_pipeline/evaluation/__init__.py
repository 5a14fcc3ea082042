"""Grid, walk-forward folds, statistics and the out-of-sample gate: numbers in, numbers out."""
