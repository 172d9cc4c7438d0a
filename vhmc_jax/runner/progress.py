"""The progress bar of a run."""

import sys
import time
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
            if self._bar.n == self._bar.initial:
                self._start(done)
            if acceptance_rates is not None:
                self._bar.set_postfix(acceptance=f"{np.mean(local_values(acceptance_rates)):.3f}", refresh=False)
            self._bar.update(done - self._bar.n)

    def _start(self, done: int) -> None:
        """Take the time from here: what came before was mostly compiling, and would promise hours."""
        self._bar.initial = self._bar.n = self._bar.last_print_n = done
        self._bar.start_t = self._bar.last_print_t = time.time()
        self._bar.refresh()
