"""Errors a person can act on: one sentence naming the field, the value, the bound and the remedy."""


class AlphaError(Exception):
    """Base of every error that is the caller's to mend. Its text is shown without a traceback."""


class ConfigError(AlphaError):
    """A configuration value is missing, unknown or out of its bounds."""


class InputError(AlphaError):
    """A file cannot be read as what it claims to be. Names the file, the byte offset and the reason."""


class DataError(AlphaError):
    """The data is readable but cannot serve the purpose (too few rows, one class only, NaN)."""


class CheckpointError(AlphaError):
    """A stored model or state does not match what is asked of it."""
