"""One decision of every lane of the replayed market in one launch; the rules are those of `alpha_core.market`."""
