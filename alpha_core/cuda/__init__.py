"""Every operation that has or will have a device kernel, a folder each, beside its readable reference."""
