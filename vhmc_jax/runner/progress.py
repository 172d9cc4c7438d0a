"""A progress bar that is driven from the host, between compiled chunks."""

import sys
import time
from collections.abc import Iterator

from tqdm import tqdm

CHUNK_SECONDS = 0.25
"""How often the bar moves, about."""


class ProgressBar:
    """Cuts a run into chunks of about a quarter of a second and shows how far it is.

    Parameters
    ----------
    total
        Number of iterations.
    description
        What stands before the bar.
    is_shown
        Whether to show it. Without a bar the run is one chunk.
    """

    def __init__(self, total: int, description: str, is_shown: bool):
        self._total = total
        self._is_shown = is_shown
        self._bar = tqdm(total=total, desc=description, unit="it", file=sys.stderr, disable=not is_shown)

    def chunk_ends(self) -> Iterator[int]:
        """Numbers of iterations at which to come back to the host; the last is the total.

        The chunk doubles until it takes long enough that looking at it costs nothing.
        """
        done, size = 0, 1 if self._is_shown else self._total
        while done < self._total:
            started = time.perf_counter()
            done = min(done + size, self._total)
            yield done
            elapsed = time.perf_counter() - started
            if elapsed < CHUNK_SECONDS / 2:
                size *= 2
            elif elapsed > 2 * CHUNK_SECONDS:
                size = max(1, size // 2)
        self._bar.close()

    def show(self, done: int, **figures: float) -> None:
        """Move the bar to ``done`` iterations and show the figures beside it."""
        if self._is_shown:
            self._bar.set_postfix({name: f"{value:.3f}" for name, value in figures.items()}, refresh=False)
            self._bar.update(done - self._bar.n)
