"""Assets: one per stage and instrument, made from the stage registry. A body runs its stage and says what came."""
