"""Writing a file so that a crash leaves the old one or the new one, and never a part."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

PARTIAL = ".partial"
"""Suffix of a file that is being written."""


def write_atomically(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Write a file under another name, bring it to the disk, then give it its name.

    Parameters
    ----------
    path
        Its name. A file of that name is replaced.
    write
        Writes the content to an open binary file.
    """
    partial = path.with_name(path.name + PARTIAL)
    try:
        with open(partial, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            _forget_pages(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _forget_pages(descriptor: int) -> None:
    """Let the system use the memory again in which it keeps a file that is on the disk, where it can be told so.

    The next file of a long run then takes the same pages: to fill new ones took three times as long. And a run does
    not crowd out what others read.
    """
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk, where the system can do that."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
