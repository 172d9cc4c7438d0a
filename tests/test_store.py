"""Records and files: what is written comes back bit for bit, and what is damaged is refused."""

import errno
import itertools
import json
import subprocess
import sys
import zipfile
from collections import namedtuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.store import atomic, files, fingerprint, folder, records
from vhmc_jax.store.files import DamagedFileError, contents_digest, load, save
from vhmc_jax.store.folder import Folder
from vhmc_jax.store.stitched import Joined, Stitched, is_stitched, mapped

RANDOM = np.random.default_rng(0)
GUIDE = vj.StudentTMixture(np.zeros(2), RANDOM.normal(size=(2, 3)), np.stack([np.eye(3)] * 2), 5.0)
Foreign = namedtuple("Foreign", ["x", "y"])
RECORDS = {
    "numbers": (1, 2.5, -0.0, None, True, "text", 10**30, float("inf"), [1, (2,)]),
    "arrays": {"jax": jnp.arange(3.0), "numpy": np.arange(4, dtype=np.int8), "empty": np.zeros((0, 3))},
    "scalars": (np.float64(0.1), np.float32(0.1), np.bool_(True), np.array(3.0)),
    "order": np.asfortranarray(RANDOM.normal(size=(4, 5))),
    "bfloat16": jnp.arange(5, dtype=jnp.bfloat16),
    "weak": jnp.asarray(1.0),
    "keys": {"a": 1, ("b", 2): jnp.ones(2)},
    "state": vj.State({"p": jnp.ones(2, jnp.float32)}, jnp.float32(1.0), None),
    "guide": GUIDE,
    "foreign": Foreign(jnp.ones(2), 3),
}


def assert_same(a, b):
    """Classes, types, dtypes and bits."""
    assert type(a).__name__ == type(b).__name__
    if isinstance(a, dict):
        assert list(a) == list(b)
        a, b = tuple(a.values()), tuple(b.values())
    if isinstance(a, tuple | list):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            assert_same(one, other)
    elif hasattr(a, "dtype"):
        assert (a.dtype, a.shape, getattr(a, "weak_type", None)) == (b.dtype, b.shape, getattr(b, "weak_type", None))
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
        if isinstance(a, np.ndarray):
            assert a.flags.f_contiguous == b.flags.f_contiguous
    elif jax.tree_util.all_leaves([a]):
        assert str(a) == str(b)
    else:
        chex.assert_trees_all_equal(a, b)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_comes_back(name, tmp_path):
    save(tmp_path / "record.npz", RECORDS[name])
    assert_same(load(tmp_path / "record.npz"), RECORDS[name])


@pytest.mark.parametrize("key", [jax.random.key(3), jax.random.key(3, impl="rbg"), jax.random.PRNGKey(3)], ids=str)
def test_a_key_comes_back(key, tmp_path):
    save(tmp_path / "key.npz", key)
    again = load(tmp_path / "key.npz")
    assert again.dtype == key.dtype
    assert float(jax.random.uniform(again)) == float(jax.random.uniform(key))


def test_numpy_opens_it_and_arrays_can_be_mapped(tmp_path):
    path = tmp_path / "record.npz"
    save(path, vj.State(np.arange(6.0).reshape(2, 3), 1.0, np.asfortranarray(np.arange(6).reshape(2, 3))))
    np.testing.assert_array_equal(np.load(path)["position"], np.arange(6.0).reshape(2, 3))
    mapped = load(path, is_mapped=True)
    assert isinstance(mapped.position, np.memmap)
    np.testing.assert_array_equal(mapped.position, np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(mapped.logdensity_grad, np.arange(6).reshape(2, 3))


def test_single_precision_reads_double_as_numpy(tmp_path):
    save(tmp_path / "record.npz", jnp.arange(3.0))
    with jax.enable_x64(False):
        again = load(tmp_path / "record.npz")
    assert isinstance(again, np.ndarray)
    assert again.dtype == np.float64


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"f": lambda x: x}, r"\[f\] cannot be stored: .* got builtins.function"),
        ((np.array([None]),), r"\[0\]: an array of Python objects"),
        ({None: 1}, "keys of dicts must be strings or numbers"),
        (vj.State, "cannot be stored"),
        ({"set": {1}}, r"\[set\] cannot be stored"),
    ],
)
def test_what_cannot_be_stored_is_named(record, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        save(tmp_path / "record.npz", record)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_stored_may_be_left_out(tmp_path):
    save(tmp_path / "record.npz", vj.Kernel(lambda x: x, jnp.ones(2)), is_lenient=True)
    again = load(tmp_path / "record.npz")
    assert again.init is None
    np.testing.assert_array_equal(again.step, np.ones(2))


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (["record", "os:stat_result", {}], "has no record os:stat_result"),
        (["record", "vhmc_jax.store.atomic:os.system", {}], "has no record"),
        (["record", "vhmc_jax.base:Gone", {}], "no record vhmc_jax.base:Gone"),
        (["record", "vhmc_jax.base:State", {"position": 1}], "other fields in this version .*: logdensity"),
        (["pickle", "x"], "unknown kind 'pickle'"),
    ],
)
def test_what_a_file_may_not_say(description, message):
    with pytest.raises(ValueError, match=message):
        records.decode(description, lambda name: np.zeros(1))


def test_a_truncated_file_and_a_changed_byte_are_refused(tmp_path):
    path = tmp_path / "record.npz"
    save(path, {"x": np.arange(100.0)})
    content = path.read_bytes()
    for place in (len(content) // 2, len(content) - 1):
        path.write_bytes(content[:place])
        with pytest.raises(DamagedFileError, match="damaged"):
            load(path)
    middle = content.index(np.arange(100.0).tobytes()) + 300
    path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    with pytest.raises(DamagedFileError, match="Bad CRC-32"):
        load(path)


def test_whichever_byte_changes_the_record_is_the_same_or_refused(tmp_path):
    """Some bytes do not count: times, and a second copy of the names."""
    path, record = tmp_path / "record.npz", {"x": np.arange(10.0), "y": (1, 2.5, "text")}
    save(path, record)
    content, num_refused = path.read_bytes(), 0
    for place in range(len(content)):
        for bits in (1, 128):
            path.write_bytes(content[:place] + bytes([content[place] ^ bits]) + content[place + 1 :])
            try:
                assert_same(load(path), record)
            except DamagedFileError:
                num_refused += 1
    assert num_refused > len(content)


def test_whichever_byte_changes_the_contents_are_the_same_or_others(tmp_path):
    """A manifest has one short digest for each file: of its list of contents, with the checksums of its arrays."""
    path, record = tmp_path / "record.npz", {"x": np.arange(10.0)}
    save(path, record)
    digest, content, num_refused = contents_digest(path, are_compared=False), path.read_bytes(), 0
    assert contents_digest(path, are_compared=True) == digest
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            is_same = contents_digest(path, are_compared=True) == digest
        except DamagedFileError:
            is_same = False
        num_refused += not is_same
        if is_same:
            assert_same(load(path), record)
    assert num_refused > len(content) // 2


@pytest.mark.parametrize(
    "array",
    [np.arange(24.0).reshape(2, 3, 4).T, np.arange(24).reshape(2, 3, 4)[:, ::2, 1:], np.zeros((0, 3)), np.array(2.5)],
    ids=["Fortran", "a part", "empty", "scalar"],
)
def test_an_array_is_written_as_numpy_writes_it(array, tmp_path):
    save(tmp_path / "record.npz", array)
    np.save(tmp_path / "array.npy", array)
    with zipfile.ZipFile(tmp_path / "record.npz") as archive:
        assert archive.read("array.npy") == (tmp_path / "array.npy").read_bytes()


def test_a_newer_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FORMAT", 2)
    save(tmp_path / "record.npz", 1)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="newer version: format 2, this one knows 1"):
        load(tmp_path / "record.npz")


def test_a_disk_that_is_full_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "record.npz"
    save(path, 1)

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save(path, 2)
    monkeypatch.undo()
    assert load(path) == 1
    assert [item.name for item in tmp_path.iterdir()] == ["record.npz"]


def test_a_folder_remembers_its_files(tmp_path):
    with Folder(tmp_path / "run", {"a": 1}) as first:
        first.write("one.npz", np.arange(3), note="x")
        first.write("two.npz", np.arange(4))
    with Folder(tmp_path / "run", {"a": 1}) as again:
        assert [entry["file"] for entry in again.entries] == ["one.npz", "two.npz"]
        assert again.find("one.npz")["note"] == "x"
        assert again.find("three.npz") is None
        np.testing.assert_array_equal(again.read("two.npz"), np.arange(4))


def test_a_folder_of_another_run_is_refused_with_what_differs(tmp_path):
    Folder(tmp_path, {"key": 1, "kernel": {"step": 0.5}, "gone": 2}).close()
    with pytest.raises(ValueError, match=r"kernel.step: 0.5 there, 0.6 here; gone: 2 there, nothing here"):
        Folder(tmp_path, {"key": 1, "kernel": {"step": 0.6}})
    Folder(tmp_path, {"key": 2}, "as is").close()
    Folder(tmp_path, {"key": 2}).close()


def test_an_older_format_is_refused_whatever_may_differ(tmp_path, monkeypatch):
    """Before anything is written: the older version can still read it."""
    Folder(tmp_path, {"key": 1}).close()
    before = (tmp_path / folder.ABOUT).read_bytes()
    monkeypatch.setattr(folder, "FORMAT", folder.FORMAT + 1)
    for resume in ("same", "as is"):
        with pytest.raises(ValueError, match="was written by an older version"):
            Folder(tmp_path, {"key": 2}, resume)
    assert (tmp_path / folder.ABOUT).read_bytes() == before


def test_a_file_may_be_written_again(tmp_path):
    with Folder(tmp_path, {}) as run:
        for value in (1, 2, 3):
            run.write(f"{value % 2}.npz", value)
    with Folder(tmp_path, {}) as again:
        assert {entry["file"]: again.read(entry["file"]) for entry in again.entries} == {"0.npz": 2, "1.npz": 3}


def test_what_is_no_folder_for_a_run(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="store must be a folder, got the file"):
        Folder(tmp_path / "file", {})
    with pytest.raises(ValueError, match=r"a new or an empty folder, .* with file"):
        Folder(tmp_path, {})
    with pytest.raises(TypeError, match="store must be the path of a folder, got int: 3"):
        Folder(3, {})
    with pytest.raises(TypeError, match="path must be the path of a folder, got int: 3"):
        vj.open_run(3)
    with pytest.raises(TypeError, match="path must be a file that save wrote, got int: 3"):
        vj.load(3)
    for which, number in (("a newer", 99), ("an older", 1)):
        (tmp_path / which).mkdir()
        (tmp_path / which / "about.json").write_text(json.dumps({"format": number, "run": {}}))
        with pytest.raises(ValueError, match=f"{which} version: format {number}, this one knows 2"):
            Folder(tmp_path / which, {})


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path, monkeypatch):
    """Root may write anywhere, so the refusal is made up."""

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(folder, "open", refuse, raising=False)
    with pytest.raises(PermissionError) as caught:
        Folder(tmp_path / "run", {})
    assert "store must be a folder that can be written to" in caught.value.__notes__[0]


def test_two_processes_are_kept_apart(tmp_path):
    code = "import sys; from vhmc_jax.store.folder import Folder; Folder(sys.argv[1], {})"
    with Folder(tmp_path, {}):
        with pytest.raises(RuntimeError, match="is writing to"):
            Folder(tmp_path, {})
        other = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
        assert "RuntimeError: store: another process" in other.stderr
    Folder(tmp_path, {}).close()


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_damaged_file_and_those_after_it_are_forgotten(tmp_path, harm):
    with Folder(tmp_path, {}) as first:
        for number in range(3):
            first.write(f"{number}.npz", np.arange(100.0))
    path = tmp_path / "1.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    if harm == "remove":
        path.unlink()
    else:
        path.write_bytes(bytes(content) if harm == "flip" else bytes(content[:-10]))
    with pytest.warns(UserWarning, match="1.npz is (damaged|missing).*made again"), Folder(tmp_path, {}) as again:
        assert [entry["file"] for entry in again.entries] == ["0.npz"]
    with Folder(tmp_path, {}) as again:
        assert len(again.entries) == 1, "nothing to warn of any more"


def test_a_manifest_that_was_cut_off_ends_at_its_last_whole_line(tmp_path):
    with Folder(tmp_path, {}) as first:
        first.write("0.npz", 1)
        first.write("1.npz", 2)
    manifest = tmp_path / folder.MANIFEST
    manifest.write_text(manifest.read_text()[:-5])
    with Folder(tmp_path, {}) as again:
        assert [entry["file"] for entry in again.entries] == ["0.npz"]
        again.write("1.npz", 3)
    with Folder(tmp_path, {}) as again:
        assert [again.read(entry["file"]) for entry in again.entries] == [1, 3]


def test_a_full_disk_names_the_last_complete_file(tmp_path, monkeypatch):
    with Folder(tmp_path, {}) as run:
        run.write("0.npz", 1)

        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(folder, "save", full)
        with pytest.raises(OSError, match="No space") as caught:
            run.write("1.npz", 2)
        assert "the last complete file" in caught.value.__notes__[0]
        assert "0.npz" in caught.value.__notes__[0]


DATA = np.arange(5.0)


def test_functions_are_told_apart_by_what_they_compute():
    digest = fingerprint.function_digest
    x = jnp.zeros(2)
    first = digest(lambda x: -0.5 * jnp.sum(x**2) + jnp.sum(jnp.asarray(DATA)), x)
    assert digest(lambda other: -0.5 * jnp.sum(other**2) + jnp.sum(jnp.asarray(DATA)), x) == first
    assert digest(lambda x: -0.5 * jnp.sum(x**2) + jnp.sum(jnp.asarray(DATA + 1e-9)), x) != first, "a constant"
    assert digest(lambda x: -0.6 * jnp.sum(x**2) + jnp.sum(jnp.asarray(DATA)), x) != first, "a number"
    assert digest(lambda x: -0.5 * jnp.sum(x**3) + jnp.sum(jnp.asarray(DATA)), x) != first, "a parameter"
    inner = jax.jit(lambda x: jnp.sum(x * jnp.asarray(DATA)))
    other = jax.jit(lambda x: jnp.sum(x * jnp.asarray(DATA + 1e-9)))
    assert digest(lambda x: inner(x[0]), x) != digest(lambda x: other(x[0]), x), "a constant of a function within"


def test_a_digest_is_the_same_in_another_process():
    code = (
        "import jax; jax.config.update('jax_enable_x64', True)\n"
        "import jax.numpy as jnp\n"
        "from vhmc_jax.store.fingerprint import function_digest\n"
        "print(function_digest(jax.grad(lambda x: jax.nn.logsumexp(x) + jnp.where(x > 0, x, 0.0).sum()), jnp.zeros(2)))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    with jax.numpy_dtype_promotion("standard"):
        here = fingerprint.function_digest(
            jax.grad(lambda x: jax.nn.logsumexp(x) + jnp.where(x > 0, x, 0.0).sum()), jnp.zeros(2)
        )
    assert output.strip() == here


@pytest.mark.parametrize(
    "index",
    [
        0,
        np.s_[:, 3],
        np.s_[:, -1],
        np.s_[1, 2:18:3],
        np.s_[:, ::-1],
        np.s_[:2, 18:2:-4, 1],
        np.s_[..., 0],
        np.s_[:, [1, 8]],
        np.s_[:, 5:5],
        np.s_[2, 30:40],
        np.s_[1, 7, 1],
        np.s_[:, None],
    ],
    ids=str,
)
def test_an_array_in_parts_is_indexed_as_a_whole_one(index):
    whole, ends = RANDOM.normal(size=(3, 20, 2)), [0, 7, 7, 15, 20]
    stitched = in_parts(whole, ends)
    assert (stitched.shape, stitched.ndim, stitched.size, len(stitched)) == ((3, 20, 2), 3, 120, 3)
    np.testing.assert_array_equal(stitched[index], whole[index])
    np.testing.assert_array_equal(jnp.asarray(stitched), whole)
    assert np.mean(stitched) == whole.mean()


def in_parts(whole, ends):
    parts = [lambda a=a, b=b: whole[:, a:b] for a, b in itertools.pairwise(ends)]
    return Stitched(parts, list(np.diff(ends)), (whole.shape[0], *whole.shape[2:]), whole.dtype)


@pytest.mark.parametrize(
    "index",
    [1, -1, np.s_[::-1, 3], np.s_[1:4, -2:], np.s_[4:1:-2, ::-3, 0], np.s_[:, 5:5], np.s_[5:, 2], np.s_[..., 1], ()],
    ids=str,
)
def test_the_arrays_of_several_processes_are_one(index):
    """The second process is ahead: draws that both have are shown."""
    whole = RANDOM.normal(size=(5, 20, 2))
    joined = Joined([in_parts(whole[:2, :17], [0, 7, 17]), in_parts(whole[2:], [0, 12, 20])])
    assert joined.shape == (5, 17, 2)
    np.testing.assert_array_equal(joined[index], whole[:, :17][index])


def test_a_function_of_draws_in_parts_is_applied_where_they_are_looked_at():
    whole = {"a": RANDOM.normal(size=(3, 20)), "b": RANDOM.normal(size=(3, 20, 2))}
    seen = []

    def function(draws):
        seen.append(draws["a"].shape)
        return {"sum": draws["a"] + draws["b"].sum(-1), "b": draws["b"] ** 2}

    parts = jax.tree.map(lambda leaf: in_parts(leaf, [0, 8, 8, 20]), whole)
    assert is_stitched(parts)
    assert not is_stitched(whole)
    found = mapped(function, parts)
    np.testing.assert_array_equal(found["sum"], whole["a"] + whole["b"].sum(-1))
    seen.clear()
    np.testing.assert_array_equal(found["b"][1, 2:5], whole["b"][1, 2:5] ** 2)
    assert seen == [(3, 8)]
    both = jax.tree.map(lambda leaf: Joined([leaf, leaf]), parts)
    np.testing.assert_array_equal(mapped(function, both)["sum"][:, ::3], np.tile(found["sum"][:, ::3], (2, 1)))


def test_arrays_in_parts_are_saved_without_being_loaded(tmp_path, monkeypatch):
    whole = RANDOM.normal(size=(5, 20, 2))
    monkeypatch.setattr(files, "BLOCK_BYTES", 2 * whole[0].nbytes)
    monkeypatch.setattr(Stitched, "__array__", None)
    save(tmp_path / "record.npz", {"x": in_parts(whole, [0, 7, 20])})
    assert_same(load(tmp_path / "record.npz"), {"x": whole})


def test_only_the_parts_that_are_asked_for_are_read():
    read = []

    def part(number):
        read.append(number)
        return np.zeros((2, 10))

    stitched = Stitched([lambda number=number: part(number) for number in range(5)], [10] * 5, (2,), float)
    _ = stitched[:, 12:14], stitched[0, 49]
    assert read == [1, 4]
