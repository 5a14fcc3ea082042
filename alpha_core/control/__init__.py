"""Control loops: pure functions from signal to signal."""
