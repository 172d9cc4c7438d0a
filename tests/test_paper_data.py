"""The loader of the paper's eight data sets: what is missing or changed is one clear line, what is read is checked."""

import hashlib
import importlib.util
import io
import sys
import urllib.error
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).parent.parent / "benchmarks" / "paper" / "data.py"
spec = importlib.util.spec_from_file_location("paper_data", SOURCE)
assert spec is not None
assert spec.loader is not None
data = importlib.util.module_from_spec(spec)
sys.modules["paper_data"] = data
spec.loader.exec_module(data)

# Invented rows in the format of each raw file, and the CSV that they must become.
RAW = {
    "HA": ("30,64,1,1\n31,59,2,2\n", "age,operation_year,positive_nodes,label\n30,64,1,0\n31,59,2,1\n"),
    "MA": ("5,67,3,5,3,1\n4,?,1,1,?,0\n\n5,58,4,5,3,0\n", "5,67,3,5,3,1\n5,58,4,5,3,0\n"),
    "BL": ("2 ,50,12500,98 ,1\r\n0 ,13,3250,28 ,0\r\n", "2,50,12500,98,1\n0,13,3250,28,0\n"),
    "IM": ("Sex,Age,Time,a,b,c,d,e\n1,22,2.25,14,3,51,50,1\n1,15,3,2,3,900,70,0\n", "1,15,3.0,2,3,900,70,0\n"),
    "IN": (
        "65,Female,0.7,0.1,187,16,18,6.8,3.3,0.9,1\n62,Male,1,5.5,699,64,100,7.5,3.2,.74,2\n"
        "45,Female,0.9,0.3,189,23,33,6.6,3.9,,1\n",
        "65,0,0.7,0.1,187,16,18,6.8,3.3,0.9,1\n62,1,1.0,5.5,699,64,100,7.5,3.2,0.74,0\n",
    ),
    "DI": (
        "@relation dr\n\n@attribute 0 numeric\n\n@data\n"
        "1,1,22,22,22,19,18,14,4.5,17.7,5.2,0.7,0,0,0.1,0,0.4,0.1,1,0\n",
        "1,1,22,22,22,19,18,14,4.5,17.7,5.2,0.7,0,0,0.1,0,0.4,0.1,1,0\n",
    ),
}  # fmt: skip


def only(monkeypatch, **data_sets):
    """Let these be all data sets there are."""
    monkeypatch.setattr(data, "DATA_SETS", data_sets)


def made_up(key):
    """A listed set whose checksum is that of the invented rows, and the raw bytes."""
    raw = RAW[key][0].encode()
    listed = data.DATA_SETS[key]
    return listed._replace(sha256=hashlib.sha256(data.as_csv(listed, raw)).hexdigest()), raw


def message(caught):
    """The line a program ends with."""
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("key", RAW)
def test_raw_files_become_the_csv(key):
    raw, expected = RAW[key]
    content = data.as_csv(data.DATA_SETS[key], raw.encode()).decode()
    assert content.endswith(expected)
    assert content.splitlines()[0] == ",".join((*data.DATA_SETS[key].columns, "label"))


def test_a_byte_order_mark_and_a_missing_last_newline_do_no_harm():
    listed, raw = made_up("HA")
    assert data.as_csv(listed, b"\xef\xbb\xbf" + raw.rstrip()) == data.as_csv(listed, raw)


@pytest.mark.parametrize(("raw", "said"), [(b"<html>", "columns"), (b"", "no rows"), (b"a,b,c,d\n", "float")])
def test_what_is_no_table_is_refused(raw, said):
    with pytest.raises(ValueError, match=said):
        data.as_csv(data.DATA_SETS["HA"], raw)


def test_addresses_are_quoted():
    assert data.DATA_SETS["IN"].url.endswith("csv/uci/Indian%20Liver%20Patient%20Dataset%20%28ILPD%29.csv")
    assert len({data_set.sha256 for data_set in data.DATA_SETS.values()}) == 8


def test_download_is_checked_kept_and_read(monkeypatch, tmp_path):
    listed, raw = made_up("HA")
    only(monkeypatch, HA=listed)
    asked = []

    def opener(url, timeout):
        asked.append(url)
        return io.BytesIO(raw)

    for _ in range(2):  # the second time it is there
        tables = data.tables(tmp_path / "new", download=True, opener=opener)
        np.testing.assert_array_equal(tables["HA"].features, [[30, 64, 1], [31, 59, 2]])
        np.testing.assert_array_equal(tables["HA"].labels, [0, 1])
    assert asked == [listed.url]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["haberman.csv"]


def test_a_download_that_is_not_the_expected_one_leaves_nothing(monkeypatch, tmp_path):
    listed, raw = made_up("HA")
    only(monkeypatch, HA=listed)
    for content in (raw.replace(b"64", b"65"), b"<html>404</html>"):
        with pytest.raises(SystemExit) as caught:
            data.tables(tmp_path, download=True, opener=lambda url, timeout, content=content: io.BytesIO(content))
        assert "haberman" in message(caught)
        assert "--data" in message(caught)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error", [urllib.error.URLError("no route to host"), TimeoutError("timed out"), ConnectionResetError("reset")]
)
def test_no_network_is_one_line(monkeypatch, tmp_path, error):
    only(monkeypatch, HA=made_up("HA")[0])

    def opener(url, timeout):
        raise error

    with pytest.raises(SystemExit) as caught:
        data.tables(tmp_path, download=True, opener=opener)
    for part in ("haberman.csv", "https://raw.githubusercontent.com/", str(error.args[0]), "--data"):
        assert part in message(caught)


def test_a_missing_folder_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv(data.VARIABLE, str(tmp_path / "there"))
    for given in (tmp_path / "nowhere", None):
        with pytest.raises(SystemExit) as caught:
            data.tables(given)
        for part in (str(given or tmp_path / "there"), "haberman.csv", "--data", "--download"):
            assert part in message(caught)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(SystemExit) as caught:
        data.tables(tmp_path)
    for part in (str(tmp_path / "haberman.csv"), "https://", "--data", "--download"):
        assert part in message(caught)


def test_a_changed_file_is_one_line(monkeypatch, tmp_path):
    listed, raw = made_up("HA")
    only(monkeypatch, HA=listed)
    content = data.as_csv(listed, raw)
    (tmp_path / "haberman.csv").write_bytes(content)
    assert data.tables(tmp_path)["HA"].title == "Haberman's Survival"
    (tmp_path / "haberman.csv").write_bytes(content.replace(b"30,64", b"30,65"))
    with pytest.raises(SystemExit) as caught:
        data.tables(tmp_path)
    for part in (str(tmp_path / "haberman.csv"), "changed", listed.sha256[:12], listed.url, "--data"):
        assert part in message(caught)


def test_without_a_folder_the_bundled_data_take_their_place(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv(data.VARIABLE, raising=False)
    monkeypatch.setattr(data, "cache_folder", lambda environment: tmp_path / "cache")
    tables = data.tables(None)
    assert tables["BC"].features.shape == (569, 30)
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert "--data FOLDER" in said
    assert "--download" in said


def test_folders_by_option_variable_and_platform(tmp_path):
    assert data.chosen_folder(tmp_path, {data.VARIABLE: "elsewhere"}) == (tmp_path, True)
    assert data.chosen_folder(None, {data.VARIABLE: "elsewhere"}) == (Path("elsewhere"), True)
    assert data.chosen_folder(None, {data.VARIABLE: ""})[1] is False
    assert data.cache_folder({}, "linux") == Path.home() / ".cache" / "vhmc_jax"
    assert data.cache_folder({}, "darwin") == Path.home() / "Library" / "Caches" / "vhmc_jax"
    assert data.cache_folder({"LOCALAPPDATA": "local"}, "win32") == Path("local") / "vhmc_jax"


def test_splits_are_stratified_and_differ():
    labels = np.repeat([0, 1], [70, 31])
    is_training = data.splits(np.random.default_rng(0), labels, 50)
    assert is_training.shape == (50, 101)
    np.testing.assert_array_equal(is_training[:, :70].sum(axis=1), 56)
    np.testing.assert_array_equal(is_training[:, 70:].sum(axis=1), 25)
    assert len(np.unique(is_training, axis=0)) == 50
    shares = is_training.mean(axis=0)
    assert np.all((shares > 0.5) & (shares < 1))  # every row is tested in some split


def test_standardised_on_the_training_part():
    rng = np.random.default_rng(1)
    features = np.column_stack([rng.normal(5, 3, 40), np.arange(40) < 1, rng.normal(size=40)])
    is_training = data.splits(rng, np.arange(40) % 2, 30)
    means, scales = data.standardisation(features, is_training)
    is_constant = ~is_training[:, 0]  # the one row that differs is in the test part
    assert is_constant.any()
    assert not is_constant.all()
    for mean, scale, mask, constant in zip(means, scales, is_training, is_constant, strict=True):
        inside = ((features - mean) / scale)[mask]
        np.testing.assert_allclose(inside.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(inside.std(axis=0), [1, 0 if constant else 1, 1])
        assert scale[1] == 1 or not constant
        assert not np.allclose(((features - mean) / scale).mean(axis=0)[[0, 2]], 0, atol=1e-6)
