"""How many CPU threads a fit uses. Part of what its result depends on: sums in another order round differently."""


def use_threads(threads: int) -> None:
    """Hold torch to so many threads in this process."""
    import torch

    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
