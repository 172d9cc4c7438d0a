"""A short search over the settings of every peer, on every target.

Each setting of a peer's grid runs with a few seeds (more where a run is short) that the comparison does not use. The
best has the least squared weight error times cost, the cost being the geometric mean of seconds and evaluations: an
error falls with the root of either. Written to ``tuning.json`` as it goes; what is there already is kept.

    python benchmarks/peers/tune.py [--samplers smc ...] [--targets "far pair" ...] [--seeds 4]
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
from form import RESULTS, Case, cases, chosen, judge, read, samplers, write

PATH = RESULTS / "tuning.json"
FIRST_SEED, MOST_SEEDS, ENOUGH_SECONDS = 1000, 16, 2.0


def measure(module: Any, case: Case, settings: dict[str, Any], num_seeds: int) -> dict[str, Any]:
    """Error and cost of one setting, means over the seeds."""
    rows: list[dict[str, Any]] = []
    while len(rows) < num_seeds or (len(rows) < MOST_SEEDS and sum(row["seconds"] for row in rows) < ENOUGH_SECONDS):
        rows.append(judge(case, module.run(case, settings, module.TUNE_BUDGET, FIRST_SEED + len(rows))))
    errors = np.array([row["weight_error"] for row in rows])
    seconds = float(np.median([row["seconds"] for row in rows]))
    evaluations = float(np.mean([row["num_gradients"] + row["num_densities"] for row in rows]))
    return {
        "settings": settings,
        "weight_error": float(f"{errors.mean():.4g}"),
        "seconds": float(f"{seconds:.4g}"),
        "evaluations": round(evaluations),
        "score": float(f"{np.mean(errors**2) * np.sqrt(seconds * evaluations):.4g}"),
    }


def best_settings(name: str, module: Any, case: Case) -> dict[str, Any]:
    """What the search found best, or the first of the grid where it was not made."""
    tried = read(PATH).get(name, {}).get(case.name)
    if not tried:
        return module.grid(case)[0]
    return min(tried, key=lambda row: row["score"] if np.isfinite(row["score"]) else np.inf)["settings"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samplers", nargs="*", help="short names of the peers")
    parser.add_argument("--targets", nargs="*", help="names of targets")
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    if options.seeds < 1:
        raise SystemExit(f"--seeds must be at least 1, got {options.seeds}")
    warnings.simplefilter("ignore")
    peers = {name: module for name, module in samplers().items() if name not in ("iid", "ours")}
    for name, module in chosen(options.samplers, peers, "sampler").items():
        for case in chosen(options.targets, cases(), "target").values():
            if read(PATH).get(name, {}).get(case.name) and not (options.samplers and options.targets):
                continue
            rows, grid = [], module.grid(case)
            if len(grid) == 1:
                continue
            for settings in grid:
                started = time.perf_counter()
                rows.append(measure(module, case, settings, options.seeds))
                row = rows[-1]
                print(
                    f"{module.NAME:22}{case.name:20} error {row['weight_error']:.4f}  {row['seconds']:7.3f} s  "
                    f"{row['evaluations']:10,} evaluations  score {row['score']:9.4f}  {settings} "
                    f"[{time.perf_counter() - started:.0f} s]",
                    flush=True,
                )
            content = read(PATH)
            content.setdefault(name, {})[case.name] = rows
            write(PATH, content)


if __name__ == "__main__":
    main()
