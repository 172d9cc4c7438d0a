"""How soon does each sampler know the mode weights? VHMC beside what one would take instead.

Every sampler runs on every target from a cold start, with several budgets and seeds, with the settings that ``tune.py``
found best. Results go to ``benchmarks/results/peers``, one JSON file a sampler, after every target: a run that was
interrupted goes on where it stopped. Samplers that are named run anew, and the others' results are kept. At the end
the page and its picture are written from the files.

    python benchmarks/peers/compare.py [--quick] [--seeds 10] [--samplers ours ...] [--targets "far pair" ...]
"""

import argparse
import datetime
import importlib.metadata
import os
import platform
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
import page
from form import RESULTS, Case, cases, chosen, judge, read, samplers, write
from tune import best_settings

sys.path.append(str(Path(__file__).resolve().parents[1]))
from provenance import commit

COMMIT = commit("benchmarks/peers")
BUDGETS = (1 / 16, 1 / 4, 1.0)
MOST_SEEDS, ENOUGH_SECONDS = 40, 4.0  # more seeds than asked for where runs are short
QUICK_TARGETS = ("far pair", "E3 m = 1, d = 32", "unequal pair")
QUICK_SAMPLERS = ("iid", "ours", "smc", "tempering")
PACKAGES = ("jax", "jaxlib", "numpy", "blackjax", "tfp-nightly", "flowMC", "optax", "equinox")


def environment() -> dict[str, Any]:
    """Versions, machine and commit."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "versions": versions,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {jax.default_backend()}",
        "commit": COMMIT,
        "date": datetime.date.today().isoformat(),
    }


def measure(name: str, module: Any, case: Case, num_seeds: int, limit: float) -> dict[str, Any]:
    """All budgets and seeds of one sampler on one target.

    What would take too long is one run instead of several, and greater budgets are left out, and named.
    """
    settings = best_settings(name, module, case)
    num_seeds = min(num_seeds, module.NUM_SEEDS or num_seeds)
    record: dict[str, Any] = {"settings": settings, "environment": environment(), "budgets": {}, "left_out": []}
    expected = 0.0
    for budget in getattr(module, "BUDGETS", BUDGETS):
        if expected * num_seeds > limit:
            record["left_out"].append(budget)
            print(
                f"{module.NAME:22}{case.name:20} budget {budget:g} left out: about {expected:.0f} s a run", flush=True
            )
            continue
        rows: list[dict[str, Any]] = []
        while len(rows) < num_seeds or (
            len(rows) < MOST_SEEDS and sum(row["seconds"] for row in rows) < ENOUGH_SECONDS
        ):
            rows.append(judge(case, module.run(case, settings, budget, len(rows))))
            if rows[0]["seconds"] * num_seeds > limit:
                break
        record["budgets"][f"{budget:g}"] = rows
        seconds = float(np.median([row["seconds"] for row in rows]))
        expected = 4.0 * seconds
        evaluations = np.mean([row["num_gradients"] + row["num_densities"] for row in rows])
        error = np.mean([row["weight_error"] for row in rows])
        print(
            f"{module.NAME:22}{case.name:20} budget {budget:<8.4g} error {error:.4f}"
            f"  {seconds:8.3f} s  {evaluations:12,.0f} evaluations  compiling {rows[0]['compile_seconds']:.1f} s",
            flush=True,
        )
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--samplers", nargs="*", help="run these anew, and keep the results of the others")
    parser.add_argument("--targets", nargs="*", help="names of targets")
    parser.add_argument("--quick", action="store_true", help="3 targets, 4 samplers, 5 seeds, to a folder of its own")
    parser.add_argument("--resume", action="store_true", help="keep what named samplers have already")
    parser.add_argument("--page", action="store_true", help="write the page from the results there are")
    parser.add_argument("--limit", type=float, default=600.0, help="most seconds for the runs of one budget")
    options = parser.parse_args()
    if options.seeds < 2:
        raise SystemExit(f"--seeds must be at least 2, got {options.seeds}")
    warnings.simplefilter("ignore")
    folder = Path("out") / "peers" if options.quick else RESULTS
    seeds = min(options.seeds, 5) if options.quick else options.seeds
    available, started = samplers(), time.perf_counter()
    if not options.page:
        names = options.samplers or (QUICK_SAMPLERS if options.quick else None)
        targets = chosen(options.targets or (QUICK_TARGETS if options.quick else None), cases(), "target")
        is_anew = bool(options.samplers) and not options.resume
        # One target after another, all samplers next to each other: a machine is not equally fast at all times.
        for case in targets.values():
            for name, module in chosen(names, available, "sampler").items():
                path = folder / f"{name}.json"
                if case.name in read(path) and not is_anew:
                    continue
                record = measure(name, module, case, seeds, options.limit)
                write(path, {**read(path), case.name: record})
    page.write_page(folder)
    print(f"{folder / 'README.md'} written, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
