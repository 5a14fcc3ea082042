"""The engine: mathematics on tensors. Imports the standard library, torch and numpy only."""
