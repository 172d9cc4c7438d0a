"""From the first iteration of a run to its last, chunk by chunk: in memory, or with files on the way."""

from collections.abc import Callable
from typing import NamedTuple

import jax

from vhmc_jax.base import PyTree
from vhmc_jax.runner.chunks import Interrupt, Window, chunk_ends
from vhmc_jax.runner.hosts import Hosts, Stop
from vhmc_jax.runner.loop import Run
from vhmc_jax.runner.progress import ProgressBar
from vhmc_jax.runner.stored import StoredChunks
from vhmc_jax.store.folder import Folder


class Advance(NamedTuple):
    """What takes the iterations of a run, and who watches it.

    Attributes
    ----------
    advance_to
        ``advance_to(end, done, run, buffer)`` takes the iterations from ``done`` to ``end``, and writes their draws to
        the buffer.
    window
        Draws that the buffer holds.
    total
        Iterations of the whole run.
    bar
        Progress bar.
    stop
        What processes say to one another.
    ends_on_signals
        Whether Ctrl-C and SIGTERM end the run between two chunks.
    """

    advance_to: Callable
    window: Window
    total: int
    bar: ProgressBar
    stop: Stop
    ends_on_signals: bool

    def in_memory(self, run: Run, buffer: PyTree) -> tuple[Run, PyTree, int]:
        """All iterations, or those until a signal: the run, the complete draws, and how many iterations they took.

        Processes that share arrays take the same number.
        """
        run, buffer, done = self._through_chunks(run, buffer, 0, None)
        if (latest := self.stop.latest(done)) > done:
            run, buffer = self.advance_to(latest, done, run, buffer)
            done = latest
        if done == self.total:
            return run, buffer, done
        if (num_draws := self.window.num_draws(done)) == 0:
            raise KeyboardInterrupt("before the first draw")
        return run, jax.tree.map(lambda leaf: leaf[:, :num_draws], buffer), done

    def to_folder(
        self, folder: Folder, names: tuple[str, ...], hosts: Hosts, run: Run, buffer: PyTree
    ) -> tuple[Run, int]:
        """The iterations that the folder does not have yet; their draws are in its files.

        Each of several processes has a folder of its own, and ends where it is. Having come to different iterations,
        they have no result together.
        """
        with StoredChunks(folder, names, self.window) as chunks:
            run, done = chunks.resumed(run, self.total)
            run, _, done = self._through_chunks(run, buffer, done, chunks)
            so_far = chunks.finish()
        hosts.wait(folder.path.parent)
        if not hosts.all(done == self.total) and (hosts.are_several or self.window.num_draws(done) == 0):
            raise KeyboardInterrupt(so_far)
        return run, done

    def _through_chunks(
        self, run: Run, buffer: PyTree, done: int, chunks: StoredChunks | None
    ) -> tuple[Run, PyTree, int]:
        is_watched = self.bar.is_shown or self.ends_on_signals
        with self.bar, Interrupt(self.ends_on_signals) as interrupt:
            for end in chunk_ends(self.total, self.window, done) if is_watched else (self.total,):
                run, buffer = self.advance_to(end, done, run, buffer)
                if is_watched:
                    jax.block_until_ready(run)
                    self.bar.show(end, getattr(run.info_means, "acceptance_rate", None))
                is_asked = self.stop.is_said(interrupt.is_asked)
                if chunks is not None:
                    buffer = chunks.take(run, buffer, done, end, end == self.total or is_asked)
                done = end
                if is_asked:
                    break
        return run, buffer, done
