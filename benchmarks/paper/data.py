"""The eight data sets of the paper's logistic regression: read from a folder, or downloaded, and always checked.

They are UCI's, under licences of their own, and not part of this repository. A folder that holds them as CSV (a
header, numbers only, ``label`` of 0 or 1 last) is given by ``--data``, by the environment variable VHMC_JAX_DATA, or is
the platform's cache; ``--download`` fills it from public copies on GitHub. What is read must have the SHA-256 listed
here, so that everybody's figures are of the same rows. Without any of this scikit-learn's breast cancer data, which
need no file, take their place.

From the source to the CSV: rows with a missing value are dropped, words and labels become numbers as listed, a column
is written as integers where all of it is; nothing is scaled, and the order of rows is kept.
"""

import hashlib
import os
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

VARIABLE = "VHMC_JAX_DATA"
TRAINING_SHARE = 0.8
UCI = ("mikeizbicki/datasets", "ea5a06d19c62de8bf28a43b2c948a011fd896fda")
WARTS = ("mamunur-ipe/wart-treatment", "f5cfb01af00d6b35cca74238fa89e170760443c9")
RETINA = ("pxpepe/ml-diabetic-retinopathy-debrecen", "7ab2658e48d40ec5d9772f5c59ac330868383c35")


class DataSet(NamedTuple):
    """Where a data set comes from, and what it must be.

    Attributes
    ----------
    title
        UCI's name.
    file
        Name of the CSV.
    source
        Repository on GitHub and commit.
    path
        Of the raw file there.
    columns
        Names of the columns, in the order of the raw file, without the label, which is last.
    sha256
        Of the CSV.
    codes
        What words and labels of the raw file become, by column; others stay as they are.
    num_header_lines
        Lines of the raw file before the first row; None for ARFF, whose rows follow ``@data``.
    """

    title: str
    file: str
    source: tuple[str, str]
    path: str
    columns: tuple[str, ...]
    sha256: str
    codes: Mapping[str, Mapping[str, str]] = {}
    num_header_lines: int | None = 0

    @property
    def url(self) -> str:
        """Address of the raw file."""
        repository, commit = self.source
        return f"https://raw.githubusercontent.com/{repository}/{commit}/{urllib.parse.quote(self.path)}"


WART_COLUMNS = ("sex", "age", "time_months", "number_of_warts", "type", "area_mm2")
DATA_SETS = {
    "HA": DataSet(
        "Haberman's Survival",
        "haberman.csv",
        UCI,
        "csv/uci/haberman.data",
        ("age", "operation_year", "positive_nodes"),
        "d605ad43ab339d339fe86ebb6065e6848cec1ac7cc7769ea491907c8866196f4",
        {"label": {"1": "0", "2": "1"}},
    ),
    "PI": DataSet(
        "Pima Indians Diabetes",
        "pima.csv",
        UCI,
        "csv/uci/pima-indians-diabetes.data",
        ("pregnancies", "glucose", "blood_pressure", "skin_thickness", "insulin", "bmi", "pedigree", "age"),
        "13054bfc5130a24983ad7f724ce970ebf41cda56c198d68ee7d22e7c78a909b9",
    ),
    "MA": DataSet(
        "Mammographic Mass",
        "mammographic.csv",
        UCI,
        "csv/uci/mammographic_masses.data",
        ("birads", "age", "shape", "margin", "density"),
        "358f2020028a98d58076beb96a8256ffce7496f5353b5811e531bcb79e5c5e16",
    ),
    "BL": DataSet(
        "Blood Transfusion Service Center",
        "blood.csv",
        UCI,
        "csv/uci/transfusion.data.modified",
        ("recency_months", "frequency_times", "monetary_cc", "time_months"),
        "82cf0b87345bb7f6c218f7cd8f149783337c87f915347d70387fc789c17f7b75",
    ),
    "CR": DataSet(
        "Cryotherapy",
        "cryotherapy.csv",
        WARTS,
        "Data/Cryotherapy.csv",
        WART_COLUMNS,
        "e9348f5088a9add754a2fb45d62b4b14c7c465baacab41c8222177383327cc44",
        num_header_lines=1,
    ),
    "IM": DataSet(
        "Immunotherapy",
        "immunotherapy.csv",
        WARTS,
        "Data/Immunotherapy.csv",
        (*WART_COLUMNS, "induration_diameter_mm"),
        "ebe423be0a883978e642a3dca6a9a64c0e148f1c92ee66980295d9105d5a15a2",
        num_header_lines=1,
    ),
    "IN": DataSet(
        "Indian Liver Patient (ILPD)",
        "indian_liver.csv",
        UCI,
        "csv/uci/Indian Liver Patient Dataset (ILPD).csv",
        (
            "age", "gender_male", "total_bilirubin", "direct_bilirubin", "alkaline_phosphatase", "sgpt_alt",
            "sgot_ast", "total_proteins", "albumin", "ag_ratio",
        ),
        "5b9adeab3114014034954e9f12cda34666d6d33c232e177bfe07a8bea924ca79",
        {"gender_male": {"Male": "1", "Female": "0"}, "label": {"2": "0"}},
    ),
    "DI": DataSet(
        "Diabetic Retinopathy Debrecen",
        "diabetic_retinopathy.csv",
        RETINA,
        "messidor_features.arff",
        (
            "quality", "prescreening", *(f"ma_{i}" for i in range(1, 7)), *(f"exudate_{i}" for i in range(1, 9)),
            "macula_disc_distance", "disc_diameter", "am_fm",
        ),
        "e4893caa0a4f1c6d7cd56e4a197ab07a0f8f5d3728b7d89ed49e5f5ac8ca2e86",
        num_header_lines=None,
    ),
}  # fmt: skip


class Table(NamedTuple):
    """Features (n, k) and labels (n,) of 0 and 1, with the data set's name."""

    title: str
    features: np.ndarray
    labels: np.ndarray


def cache_folder(environment: Mapping[str, str] = os.environ, system: str = sys.platform) -> Path:
    """Where this platform keeps what can be downloaded again."""
    if system == "win32":
        return Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "vhmc_jax"
    if system == "darwin":
        return Path.home() / "Library" / "Caches" / "vhmc_jax"
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vhmc_jax"


def chosen_folder(given: Path | None, environment: Mapping[str, str] = os.environ) -> tuple[Path, bool]:
    """The folder to read, and whether the user named it: by option, by environment variable, else the cache."""
    if given is not None:
        return given, True
    if environment.get(VARIABLE):
        return Path(environment[VARIABLE]), True
    return cache_folder(environment), False


def tables(
    given: Path | None, *, download: bool = False, opener: Callable = urllib.request.urlopen
) -> dict[str, Table]:
    """All eight sets; or scikit-learn's breast cancer, after a line that says so, where no folder is given nor cached.

    Parameters
    ----------
    given
        The folder of ``--data``.
    download
        Whether to fill the folder from the sources first.
    opener
        ``opener(url, timeout=seconds)``, a context manager with ``read()``.

    Returns
    -------
    The tables by the paper's abbreviations. What cannot be had ends the program with one line.
    """
    folder, is_named = chosen_folder(given)
    if download:
        fetch(folder, opener)
    elif is_named and not folder.is_dir():
        raise SystemExit(
            f"no folder {folder}: --data and {VARIABLE} take a folder with {_files()}; --download fills it"
        )
    elif not is_named and not all((folder / data_set.file).is_file() for data_set in DATA_SETS.values()):
        print(
            "The eight data sets were not given (--data FOLDER, or --download to fetch them): scikit-learn's "
            "breast cancer data take their place."
        )
        return {"BC": breast_cancer()}
    return {key: read(data_set, folder) for key, data_set in DATA_SETS.items()}


def _files() -> str:
    return ", ".join(data_set.file for data_set in DATA_SETS.values())


def read(data_set: DataSet, folder: Path) -> Table:
    """One set from its CSV, which must be there, and be the one that is listed."""
    path = folder / data_set.file
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SystemExit(
            f"cannot read {path}: {error.strerror}; it is made from {data_set.url}: --download fetches it, "
            f"--data FOLDER names another place"
        ) from None
    if (found := hashlib.sha256(content).hexdigest()) != data_set.sha256:
        raise SystemExit(
            f"{path} has changed: SHA-256 {found[:12]}…, expected {data_set.sha256[:12]}…; remove it and use "
            f"--download (from {data_set.url}), or name another folder by --data"
        )
    numbers = np.loadtxt(content.decode().splitlines(), delimiter=",", skiprows=1, ndmin=2)
    return Table(data_set.title, numbers[:, :-1], numbers[:, -1].astype(int))


def fetch(folder: Path, opener: Callable = urllib.request.urlopen) -> None:
    """Download the sets that the folder lacks, make their CSVs, check and keep them."""
    for data_set in DATA_SETS.values():
        path = folder / data_set.file
        if path.is_file():
            continue
        print(f"downloading {data_set.url}", flush=True)
        help_line = f"put {data_set.file} into a folder and name it by --data"
        try:
            with opener(data_set.url, timeout=30) as response:
                raw = response.read()
        except (OSError, HTTPException) as error:  # URLError, timeouts and refused connections are OSErrors
            reason = getattr(error, "reason", None) or error
            raise SystemExit(f"cannot download {data_set.file} from {data_set.url}: {reason}; {help_line}") from None
        try:
            content = as_csv(data_set, raw)
        except ValueError as error:
            raise SystemExit(f"what came from {data_set.url} is not the expected table: {error}; {help_line}") from None
        if (found := hashlib.sha256(content).hexdigest()) != data_set.sha256:
            raise SystemExit(
                f"what came from {data_set.url} is not the {data_set.file} expected: SHA-256 {found[:12]}… instead "
                f"of {data_set.sha256[:12]}…; {help_line}"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".part")  # a download that is cut off leaves no file of the right name
            partial.write_bytes(content)
            partial.replace(path)
        except OSError as error:
            raise SystemExit(
                f"cannot write {path}: {error.strerror}; name a folder that can be written by --data"
            ) from None


def as_csv(data_set: DataSet, raw: bytes) -> bytes:
    """The CSV made from a raw file: codes as numbers, rows with a missing value dropped."""
    lines = [line.strip() for line in raw.decode("utf-8-sig").splitlines()]
    if data_set.num_header_lines is None:
        starts = [number for number, line in enumerate(lines) if line.lower() == "@data"]
        if not starts:
            raise ValueError("no line @data")
        lines = lines[starts[0] + 1 :]
    else:
        lines = lines[data_set.num_header_lines :]
    names = (*data_set.columns, "label")
    rows = []
    for line in lines:
        if not line or line.startswith("%"):
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(names):
            raise ValueError(f"{len(names)} columns expected, got {line[:60]!r}")
        if "" not in cells and "?" not in cells:
            rows.append([data_set.codes.get(name, {}).get(cell, cell) for name, cell in zip(names, cells, strict=True)])
    if not rows:
        raise ValueError("no rows")
    columns = [[float(cell) for cell in column] for column in zip(*rows, strict=True)]
    written = [
        [str(int(x)) for x in column] if all(x.is_integer() for x in column) else [repr(x) for x in column]
        for column in columns
    ]
    return "".join(",".join(row) + "\n" for row in [names, *zip(*written, strict=True)]).encode()


def breast_cancer() -> Table:
    """scikit-learn's bundled data, 569 × 30."""
    from sklearn.datasets import load_breast_cancer

    features, labels = load_breast_cancer(return_X_y=True)
    return Table("Breast cancer (scikit-learn)", np.asarray(features, float), np.asarray(labels, int))


def splits(rng: np.random.Generator, labels: np.ndarray, num_splits: int) -> np.ndarray:
    """Random training parts of 80 %, stratified: boolean (split, row), as many rows of each class in every split."""
    is_training = np.zeros((num_splits, len(labels)), bool)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        order = rng.random((num_splits, len(rows))).argsort(axis=1)
        is_training[:, rows] = order < round(TRAINING_SHARE * len(rows))
    return is_training


def standardisation(features: np.ndarray, is_training: np.ndarray) -> tuple[Any, Any]:
    """Means and standard deviations (split, column) of the training rows; 1 for a column that is constant there."""
    weights = is_training / is_training.sum(axis=1, keepdims=True)
    means = weights @ features
    deviations = np.stack([np.sqrt(w @ (features - m) ** 2) for w, m in zip(weights, means, strict=True)])
    is_constant = deviations <= 1e-10 * np.maximum(np.abs(means), np.ptp(features, axis=0))
    return means, np.where(is_constant, 1.0, deviations)
