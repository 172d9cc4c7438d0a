"""What the scripts of the paper's experiments share: options, results as JSON with their origin, progress.

Every figure that a picture or a page shows is read from the JSON that ``write`` leaves, never from memory, so that
``--draw`` makes the picture again without running anything.
"""

import argparse
import datetime
import json
import math
import os
import platform
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj

sys.path.append(str(Path(__file__).resolve().parents[1]))
from provenance import ROOT, commit

COMMIT = commit("benchmarks/paper")
RESULTS = "benchmarks/results/paper"
QUICK_RESULTS = "out/paper"


def options(doc: str | None, **extra_arguments: Any) -> argparse.Namespace:
    """The command line of an experiment.

    Parameters
    ----------
    doc
        The script's docstring, shown by ``--help``.
    extra_arguments
        Further options: ``data={"type": Path, "help": "..."}`` adds ``--data``.

    Returns
    -------
    ``quick``, ``runs`` (None unless given), ``output`` (a folder, made if need be), ``draw``, and the further ones.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few runs: seconds to a minute")
    parser.add_argument("--runs", type=int, help="number of runs, in place of the default")
    parser.add_argument("--output", type=Path, help=f"folder, by default {RESULTS}, or {QUICK_RESULTS} with --quick")
    parser.add_argument("--draw", action="store_true", help="only draw the picture again, from the JSON")
    for name, settings in extra_arguments.items():
        parser.add_argument("--" + name.replace("_", "-"), **settings)
    chosen = parser.parse_args()
    if chosen.runs is not None and chosen.runs < 1:
        raise SystemExit(f"--runs must be at least 1, got {chosen.runs}")
    # A folder that the user names is relative to where the user is; the default ones to the repository.
    chosen.output = chosen.output or ROOT / (QUICK_RESULTS if chosen.quick else RESULTS)
    try:
        chosen.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SystemExit(f"--output must be a folder, got {chosen.output}: {error.strerror}") from None
    return chosen


def num_runs(options: argparse.Namespace, full: int, quick: int) -> int:
    """Runs as asked for, or the default of the full or the quick setting."""
    return options.runs or (quick if options.quick else full)


def write(options: argparse.Namespace, name: str, settings: dict, results: dict, seconds: float) -> Path:
    """Leave ``<output>/<name>.json``: settings, results and what they were made with, to five significant digits."""
    path = options.output / f"{name}.json"
    document = {"settings": settings, "results": results, "made_with": made_with(seconds)}
    path.write_text(json.dumps(rounded(document), separators=(",", ":"), allow_nan=False) + "\n", encoding="utf-8")
    print(f"{shown(path)} ({path.stat().st_size / 1000:.0f} kB)", flush=True)
    return path


def read(options: argparse.Namespace, name: str) -> dict:
    """What ``write`` left."""
    path = options.output / f"{name}.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SystemExit(f"no results at {shown(path)}: run without --draw first") from None
    except json.JSONDecodeError as error:
        raise SystemExit(f"{shown(path)} is no JSON: {error}") from None


def picture_path(options: argparse.Namespace, name: str) -> Path:
    """Where the picture of an experiment goes."""
    return options.output / f"{name}.png"


def save_picture(options: argparse.Namespace, name: str, figure: Any) -> Path:
    """Save a figure there, and say so."""
    path = picture_path(options, name)
    figure.savefig(path, dpi=110)
    print(shown(path), flush=True)
    return path


@contextmanager
def progress(stage: str) -> Iterator[None]:
    """Print ``stage ... 12 s`` around what takes the time."""
    print(f"{stage} ...", end=" ", flush=True)
    started = time.perf_counter()
    try:
        yield
    except BaseException:
        print("failed", flush=True)
        raise
    print(f"{time.perf_counter() - started:.0f} s", flush=True)


def made_with(seconds: float) -> dict:
    """Command, commit, date, versions and machine."""
    arguments = [shown(Path(sys.argv[0])), *sys.argv[1:]]
    return {
        "command": " ".join(["python", *arguments]),
        "commit": COMMIT,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "vhmc_jax": version("vhmc-jax"),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "seconds": float(f"{seconds:.3g}"),
    }


def shown(path: Path) -> str:
    """A path as seen from the repository, where it lies within."""
    path = path.resolve()
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def run_key(*names: Any) -> jax.Array:
    """A key of its own for what is so named: runs that shared one would repeat each other's luck."""
    return jax.random.key(zlib.crc32(" ".join(map(str, names)).encode()))


def fitted_guide(target: Any, half_width: float, seed: int = 0) -> tuple[Any, Any, Any]:
    """A guide from scratch, told no more than a box around the origin: guide, report and modes.

    One Gaussian a mode, as in the paper, and the library's defaults otherwise.
    """
    key_modes, key_fit = jax.random.split(jax.random.key(seed))
    region = vj.box(jnp.full(target.dim, -half_width), jnp.full(target.dim, half_width))
    modes = vj.find_modes(key_modes, target.logdensity, region)
    guide, report = vj.fit_guide(key_fit, target.logdensity, modes, max_components=1)
    return guide, report, modes


def guide_results(report: Any, modes: Any) -> dict:
    """What the JSON says about a guide, its cost in evaluations included."""
    return {
        "num_modes": len(modes.logdensities),
        "num_starts": modes.num_starts,
        "mode_weights": report.mode_weights,
        "mode_weight_errors": report.mode_weight_errors,
        "expected_acceptance": report.expected_acceptance,
        "evaluations": modes.num_gradients + modes.num_densities + report.num_gradients + report.num_densities,
    }


def over_runs(values: Any) -> dict:
    """Mean and the 10 % and 90 % quantiles over the runs, the first axis; of one number a run also the mean's error."""
    values = np.asarray(values, np.float64)
    low, high = np.quantile(values, (0.1, 0.9), axis=0)
    figures = {"mean": values.mean(axis=0), "low": low, "high": high}
    return figures if values.ndim > 1 else {**figures, "error": values.std() / np.sqrt(len(values))}


def log_spaced(total: int, count: int = 60) -> np.ndarray:
    """About so many whole numbers from 1 to the total, evenly spaced on a logarithmic axis."""
    return np.unique(np.geomspace(1, total, count).round().astype(int))


def rounded(value: Any) -> Any:
    """Numbers to five significant digits, arrays as lists, what is not finite as None."""
    if isinstance(value, dict):
        return {str(key): rounded(item) for key, item in value.items()}
    if isinstance(value, str | bool | None):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    array = np.asarray(value)
    if array.ndim:
        return [rounded(item) for item in array.tolist()]
    number = array.item()
    if not isinstance(number, float):
        return number
    return float(f"{number:.5g}") if math.isfinite(number) else None
