"""From raw market-data files to the canonical snapshot and trade tables."""
