"""Which code made a result."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def commit(*folders: str) -> str:
    """Short hash of the commit, with "+changes" where the package or one of these folders differs from it.

    Ask once, when the code is imported: the repository may move on while an experiment runs.
    """
    try:
        changes = _git("status", "--porcelain", "--", "vhmc_jax", *folders)
        return _git("rev-parse", "--short", "HEAD") + ("+changes" if changes else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
