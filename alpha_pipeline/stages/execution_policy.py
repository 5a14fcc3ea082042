"""The execution policy, trained in a replayed market on the alpha of the published perception."""

VERSION = "1"
