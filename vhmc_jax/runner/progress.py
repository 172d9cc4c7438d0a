"""The progress bar of a run."""

import sys
from typing import Any, Self

import numpy as np
from tqdm import tqdm

from vhmc_jax.runner.devices import local_values


class ProgressBar:
    """Shows iterations, their rate and the mean acceptance.

    Parameters
    ----------
    total
        Number of iterations.
    description
        What stands before the bar.
    is_shown
        Whether to show it.
    """

    def __init__(self, total: int, description: str, is_shown: bool):
        self.is_shown = is_shown
        self._bar = tqdm(total=total, desc=description, unit="it", file=sys.stderr, disable=not is_shown)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def show(self, done: int, acceptance_rates: Any = None) -> None:
        """Move the bar to ``done`` iterations, with the mean of the chains' acceptance rates where there are any."""
        if self.is_shown:
            if acceptance_rates is not None:
                self._bar.set_postfix(acceptance=f"{np.mean(local_values(acceptance_rates)):.3f}", refresh=False)
            self._bar.update(done - self._bar.n)
