"""A record in a file: an ``.npz`` without compression, with the description as one more array.

``numpy.load`` opens it too. Arrays of a large file are mapped, and read where they are looked at.
"""

import contextlib
import errno
import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from vhmc_jax.arguments import as_path
from vhmc_jax.store.atomic import write_atomically
from vhmc_jax.store.records import decode, encode
from vhmc_jax.store.stitched import Stitched

FORMAT = 1
"""Version of the files. A file of a later one is refused."""
DESCRIPTION = "record.json"
"""Member that holds the description, and the version."""
DAMAGE = (
    *(zipfile.BadZipFile, NotImplementedError, RuntimeError),  # of zipfile: checksums, versions and flags
    *(KeyError, EOFError, json.JSONDecodeError, UnicodeDecodeError),
)
"""What a byte that changed may lead to."""
BLOCK_BYTES = 2**27
"""An array whose parts lie in other files is copied in blocks of chains of at most so many bytes, or one chain."""


class DamagedFileError(ValueError):
    """A file was cut short, or a byte of it changed."""


def save(path: Any, record: Any, *, is_lenient: bool = False) -> str:
    """Write a record to a file, which is complete or not there.

    Parameters
    ----------
    path
        Name of the file. A file of that name is replaced.
    record
        What to write: a ``Result``, a ``Frozen``, a guide, another record of this package, or a pytree of arrays.
    is_lenient
        Whether what cannot be stored, a function for instance, comes back as None. Otherwise it is an error.

    Returns
    -------
    A digest of the file's contents: another one where a bit of an array differs.

    Examples
    --------
    >>> import tempfile, jax.numpy as jnp, vhmc_jax as vj
    >>> path = tempfile.mkdtemp() + "/guide.npz"
    >>> _ = vj.save(path, vj.GaussianMixture(jnp.zeros(1), jnp.zeros((1, 2)), jnp.eye(2)[None]))
    >>> vj.load(path).means.shape
    (1, 2)
    """
    members = _members(record, is_lenient)  # what cannot be stored is said before a file is touched
    write_atomically(Path(path), lambda file: _write_members(file, members))
    return contents_digest(Path(path), are_compared=False)


def save_to(file: Any, record: Any) -> None:
    """The same into an open binary file."""
    _write_members(file, _members(record, False))


def _members(record: Any, is_lenient: bool) -> dict[str, Any]:
    description, arrays = encode(record, is_lenient)
    text = json.dumps({"format": FORMAT, "record": description}, ensure_ascii=False)
    return {DESCRIPTION: np.frombuffer(text.encode(), np.uint8), **arrays}


def load(path: Any, *, is_mapped: bool = False) -> Any:
    """What ``save`` wrote: a ``Result``, a ``Frozen``, a guide, or another record of this package.

    Parameters
    ----------
    path
        Name of the file, or an open binary file.
    is_mapped
        Whether arrays stay on the disk until they are looked at. Checksums are then not compared.

    Returns
    -------
    The record.

    Examples
    --------
    >>> import tempfile, jax.numpy as jnp, vhmc_jax as vj
    >>> path = tempfile.mkdtemp() + "/state.npz"
    >>> _ = vj.save(path, {"draws": jnp.zeros((4, 100))})
    >>> vj.load(path)["draws"].shape
    (4, 100)
    """
    path = path if hasattr(path, "read") else as_path("path", path, "a file that save wrote")
    if isinstance(path, Path) and path.is_dir():
        raise ValueError(f"path must be a file that save wrote, got the folder {path}: open_run reads a store")
    with _archive(path) as archive:
        description = json.loads(bytes(_read_member(archive, DESCRIPTION)))
        if description["format"] > FORMAT:
            raise ValueError(
                f"{path} was written by a newer version: format {description['format']}, this one knows {FORMAT}"
            )
        array_of: Callable = _mapped(path, archive) if is_mapped else lambda name: _read_member(archive, name)
        return decode(description["record"], array_of)


def contents_digest(path: Path, *, are_compared: bool) -> str:
    """A digest of what a file contains: names, places, lengths and checksums of its arrays.

    Parameters
    ----------
    path
        Name of a file that :func:`save` wrote.
    are_compared
        Whether all arrays are read, and compared with their checksums.

    Returns
    -------
    The SHA-256 of the list of contents.
    """
    with _archive(path) as archive:
        members = [
            (each.filename, each.header_offset, each.compress_type, each.flag_bits, each.file_size, each.CRC)
            for each in archive.infolist()
        ]
        if are_compared and (name := archive.testzip()):
            raise DamagedFileError(f"{path} is damaged: the checksum of {name} differs")
    return hashlib.sha256(json.dumps(members).encode()).hexdigest()


@contextlib.contextmanager
def _archive(path: Any) -> Iterator[zipfile.ZipFile]:
    """A file to read from; what a byte that changed leads to is one error."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except DAMAGE as error:
        raise DamagedFileError(f"{path} is no record, or is damaged: {error}") from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # a place before the beginning of the file
            raise
        raise DamagedFileError(f"{path} is damaged: it names places that are not in it") from error


def _write_members(file: Any, arrays: dict[str, Any]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                if isinstance(array, Stitched):
                    _write_blocks(member, array)
                else:
                    _write_array(member, array)


def _write_array(member: Any, array: np.ndarray) -> None:
    """An array in NumPy's format, from where it lies in memory. ``numpy.lib.format.write_array`` copies it twice."""
    about = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(member, about)
    in_order = np.ascontiguousarray(array.T if about["fortran_order"] else array)
    member.write(in_order.reshape(-1).view(np.uint8).data)


def _write_blocks(member: Any, array: Stitched) -> None:
    """An array that lies in other files, without all of it in memory."""
    about = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(member, about)
    num_chains = max(1, BLOCK_BYTES * len(array) // max(1, array.nbytes))
    for first in range(0, len(array), num_chains):
        member.write(np.ascontiguousarray(array[first : first + num_chains]).data)


def _read_member(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as member:
        try:
            array = np.lib.format.read_array(member, allow_pickle=False)
        except ValueError as error:
            raise DamagedFileError(f"{archive.filename}: {name} is damaged: {error}") from error
        if member.read(1):  # to the end, where the checksum is compared
            raise DamagedFileError(f"{archive.filename}: {name} is longer than its header says")
        return array


def _mapped(path: Path, archive: zipfile.ZipFile) -> Callable[[str], np.ndarray]:
    def array_of(name: str) -> np.ndarray:
        # A member's bytes begin after its local header, whose length stands in the header itself.
        with open(path, "rb") as file:
            file.seek(archive.getinfo(f"{name}.npy").header_offset + 26)
            lengths = np.frombuffer(file.read(4), "<u2")
            file.seek(int(lengths.sum()), 1)
            version = np.lib.format.read_magic(file)
            read_header = (
                np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            )
            shape, is_fortran, dtype = read_header(file)
            if 0 in shape or not shape:
                return _read_member(archive, name)
            return np.memmap(path, dtype, "r", file.tell(), shape, "F" if is_fortran else "C")

    return array_of
