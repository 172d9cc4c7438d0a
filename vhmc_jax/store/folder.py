"""The files of one run: what the run is, a lock, and a manifest of the files that are complete."""

import json
import os
import warnings
from pathlib import Path
from typing import Any, Self

from vhmc_jax.arguments import as_path
from vhmc_jax.store.atomic import PARTIAL, write_atomically
from vhmc_jax.store.files import DamagedFileError, contents_digest, load, save

FORMAT = 2
"""Version of the folders. A folder of another one is refused."""
ABOUT, MANIFEST, LOCK = "about.json", "manifest.jsonl", "lock"
"""Names of the files that each folder has: what the run is, one line for each complete file, and the lock."""
RESUME = ("same", "as is")
"""What a run may do with a folder that holds another: refuse, or take it as it is."""


class Folder:
    """A folder to which one process writes. It is locked until :meth:`close`, or until the process ends.

    Parameters
    ----------
    path
        The folder. It is made where it is not there.
    fingerprint
        What the run is: names, and values for JSON.
    resume
        ``"same"`` to refuse a folder that holds another run, ``"as is"`` to take it whatever it holds.
    """

    def __init__(self, path: Any, fingerprint: dict[str, Any], resume: str = "same"):
        self.path = path_of(path)
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"store must be a folder, got the file {self.path}")
        is_known = (self.path / ABOUT).exists()
        if not is_known:
            _require_empty(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.path / LOCK, "a")  # noqa: SIM115
        except OSError as error:
            error.add_note(f"store must be a folder that can be written to, got {self.path}")
            raise
        try:
            _lock(self._lock, self.path)
            known = read_about(self.path) if is_known else None
            if known is not None and resume == "same":
                _require_same(known, fingerprint, self.path)
            else:
                about = json.dumps({"format": FORMAT, "run": fingerprint}, indent=1)
                write_atomically(self.path / ABOUT, lambda file: file.write(about.encode()))
            self.entries = self._sound_entries()
        except BaseException:
            self.close()
            raise

    def _sound_entries(self) -> list[dict]:
        """Lines of the manifest up to the first file that is damaged; what comes after it is forgotten."""
        entries, count = read_manifest(self.path), 0
        for entry in entries:
            if why := damage(self.path, entry):
                warnings.warn(f"{self.path / entry['file']} is {why}: it is made again", stacklevel=4)
                break
            count += 1
        self._write_manifest(entries[:count])
        for partial in self.path.glob(f"*{PARTIAL}"):
            partial.unlink()
        return entries[:count]

    def _write_manifest(self, entries: list[dict]) -> None:
        text, manifest = "".join(_line(entry) for entry in entries), self.path / MANIFEST
        if not manifest.exists() or manifest.read_text() != text:  # a line may have been cut off
            write_atomically(manifest, lambda file: file.write(text.encode()))

    def _forget(self, name: str) -> None:
        """Take a file that will be replaced out of the manifest."""
        if self.find(name) is not None:
            self.entries = [entry for entry in self.entries if entry["file"] != name]
            self._write_manifest(self.entries)

    def write(self, name: str, record: Any, **about: Any) -> None:
        """Write a record to a file of that name, then a line about it to the manifest."""
        try:
            self._forget(name)
            file = self.path / name
            digest = save(file, record)
            entry = {"file": name, "bytes": file.stat().st_size, "contents": digest, **about}
            with open(self.path / MANIFEST, "ab") as manifest:
                manifest.write(_line(entry).encode())
                manifest.flush()
                os.fsync(manifest.fileno())
        except OSError as error:
            done = self.entries[-1]["file"] if self.entries else "none"
            error.add_note(f"store: the last complete file of {self.path} is {done}; call again to resume from there")
            raise
        self.entries.append(entry)

    def find(self, name: str) -> dict | None:
        """The manifest's line about a file; None where it is not complete."""
        return next((entry for entry in self.entries if entry["file"] == name), None)

    def read(self, name: str) -> Any:
        """The record in a file."""
        return load(self.path / name)

    def close(self) -> None:
        """Let others write."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def path_of(folder: Any, name: str = "store") -> Path:
    """What was given as a folder, under this name, as a path."""
    return as_path(name, folder, "the path of a folder")


def require_resume(resume: str) -> None:
    """Whether ``resume`` is one of those there are."""
    if resume not in RESUME:
        raise ValueError(f"resume must be one of {RESUME}, got {resume!r}")


def read_about(path: Path) -> dict:
    """What the run in a folder is."""
    try:
        about = json.loads((path / ABOUT).read_text())
    except FileNotFoundError:
        raise ValueError(f"{path} holds no run: there is no {ABOUT} in it") from None
    except json.JSONDecodeError as error:
        raise DamagedFileError(f"{path / ABOUT} is damaged: {error}") from error
    if about["format"] != FORMAT:
        which = "a newer" if about["format"] > FORMAT else "an older"
        raise ValueError(f"{path} was written by {which} version: format {about['format']}, this one knows {FORMAT}")
    return about["run"]


def read_manifest(path: Path) -> list[dict]:
    """Lines of the manifest. A last line that was cut off does not count."""
    try:
        lines = (path / MANIFEST).read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    entries: list[dict] = []
    for line in lines:
        try:
            entry = json.loads(line) if line.endswith("\n") else None
        except json.JSONDecodeError:
            entry = None
        if entry is None:
            break
        entries.append(entry)
    return entries


def damage(path: Path, entry: dict) -> str:
    """What is wrong with a file that the manifest names; empty where nothing is."""
    file = path / entry["file"]
    if not file.exists():
        return "missing"
    if (size := file.stat().st_size) != entry["bytes"]:
        return f"damaged ({size:,} bytes in place of {entry['bytes']:,})"
    try:
        is_same = contents_digest(file, are_compared=True) == entry["contents"]
    except DamagedFileError:
        is_same = False
    return "" if is_same else "damaged (its checksum differs)"


def _line(entry: dict) -> str:
    return json.dumps(entry) + "\n"


def _require_empty(path: Path) -> None:
    others = sorted(item.name for item in path.iterdir()) if path.exists() else []
    others = [name for name in others if name != LOCK and not name.endswith(PARTIAL)]
    if others:
        raise ValueError(
            f"store must be a new or an empty folder, or one that a run has written, got {path} with {others[0]}"
            f"{f' and {len(others) - 1} more' if len(others) > 1 else ''}"
        )


def _require_same(stored: dict, given: dict, path: Path) -> None:
    """Raise where a folder holds another run, and say what differs."""
    stored, given = _flat(json.loads(json.dumps(stored))), _flat(json.loads(json.dumps(given)))
    changed = [name for name in {**stored, **given} if stored.get(name) != given.get(name)]
    if changed:
        lines = (f"{name}: {_short(stored.get(name))} there, {_short(given.get(name))} here" for name in changed)
        raise ValueError(
            f"store: {path} holds another run, which differs in {'; '.join(lines)}. Give another folder, or "
            'resume="as is" to go on with it in spite of that.'
        )


def _flat(tree: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict) or not tree:
        return {name: tree}
    prefix = f"{name}." if name else ""
    return {key: value for part, branch in tree.items() for key, value in _flat(branch, prefix + part).items()}


def _short(value: Any) -> str:
    return "nothing" if value is None else str(value) if len(str(value)) <= 60 else f"{str(value)[:57]}..."


def _lock(file: Any, path: Path) -> None:
    """Keep other processes out. The system lets go of the lock when the process ends, however it does."""
    try:
        import fcntl
    except ImportError:  # Windows has none: two processes are then not kept apart
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise RuntimeError(f"store: another process, or another run of this one, is writing to {path}") from None
