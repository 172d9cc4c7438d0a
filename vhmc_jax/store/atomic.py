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
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk, where the system can do that."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
