"""Modes of any shape: ``vj.sample`` beside NUTS, tempered SMC and parallel tempering on twenty densities.

Ours runs with its defaults. The peers get the region that ours gets, settings from a grid of their own (tempered SMC
and parallel tempering: the best by the truth of short runs), and as many evaluations as ours took, or a million where
ours took less. A gradient and a density value are one evaluation each. A run is judged by the truth as in trust.py.
Its effective size is that of the worst coordinate, or of the worst indicator of a mode where there are several modes.

``ours`` is not told of symmetries: the exchange of labels is left to its jumps. ``symmetric`` is, where there are any.

Every run is a process of its own with a timeout of processor time, which other programs do not change.
``out/shapes.json`` keeps every run: samplers and densities that are named run anew, and the others are kept.

    python benchmarks/shapes.py [--samplers ours symmetric nuts] [--only banana funnel] [--seeds 1] [--page FILE]
    python benchmarks/shapes.py --check-truths
"""

import argparse
import importlib.metadata
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from provenance import commit
from shapes_page import write_page
from shapes_samplers import Run, run_ours, run_peer
from trust_densities import Density
from trust_densities.shapes import SHAPES, Shape
from trust_verdict import judge

import vhmc_jax as vj

OUT = Path(__file__).resolve().parents[1] / "out" / "shapes.json"
SAMPLERS = ("ours", "symmetric", "nuts", "smc", "tempering")
LEAST_EVALUATIONS = 1_000_000
PACKAGES = ("jax", "blackjax", "tfp-nightly")
COMMIT = commit("benchmarks")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--samplers", nargs="*", default=list(SAMPLERS), metavar="NAME", help="none writes the page alone"
    )
    parser.add_argument("--only", nargs="*", help="parts of names")
    parser.add_argument("--modes", choices=("one", "several"), help="densities with one mode, or with several")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300.0, help="processor seconds that one run may take")
    parser.add_argument("--page", type=Path, help="write the page from all runs there are")
    parser.add_argument("--check-truths", action="store_true", help="compare the truths with draws")
    parser.add_argument("--one", nargs=4, metavar=("SAMPLER", "DENSITY", "SEED", "EVALUATIONS"), help="one run, here")
    options = parser.parse_args()
    if options.one:
        signal.setitimer(signal.ITIMER_PROF, options.timeout)  # no handler: it ends the process, whatever that does
        signal.setitimer(signal.ITIMER_REAL, 10 * options.timeout)
        name, density, seed, evaluations = options.one
        print(json.dumps(run_here(name, density, int(seed), float(evaluations))), flush=True)
        return
    shapes = [shape for shape in SHAPES if is_chosen(shape, options)]
    if not shapes:
        raise SystemExit("no density has such a name: " + ", ".join(shape.case.name for shape in SHAPES))
    if unknown := set(options.samplers) - set(SAMPLERS):
        raise SystemExit(f"no sampler {', '.join(unknown)}; there are: {', '.join(SAMPLERS)}")
    if options.check_truths:
        from trust import check_truths

        check_truths([shape.case for shape in shapes])
    for name in options.samplers:
        for shape in shapes:
            if name != "symmetric" or shape.symmetries is not None:
                run_all_seeds(name, shape.case.name, options)
    if options.page:
        write_page(options.page, SHAPES, read())


def is_chosen(shape: Shape, options: argparse.Namespace) -> bool:
    has_name = not options.only or any(part in shape.case.name for part in options.only)
    return has_name and (not options.modes or (options.modes == "several") == bool(shape.modes))


def read() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The runs there are: sampler → density → runs."""
    return json.loads(OUT.read_text()) if OUT.exists() else {}


def run_all_seeds(name: str, density: str, options: argparse.Namespace) -> None:
    """The runs of one sampler on one density, written when they are done, with a line for each."""
    runs = []
    ours = [r["evaluations"] for r in read().get("ours", {}).get(density, []) if "evaluations" in r]
    evaluations = max([LEAST_EVALUATIONS, *ours])
    for seed in range(options.seeds):
        runs.append(run_elsewhere(name, density, seed, evaluations, options.timeout))
        print(line(name, density, runs[-1]), flush=True)
    records = read()
    records.setdefault(name, {})[density] = runs
    OUT.parent.mkdir(exist_ok=True)
    draft = OUT.with_suffix(".draft")
    draft.write_text(json.dumps(records, indent=1))
    draft.replace(OUT)


def run_elsewhere(name: str, density: str, seed: int, evaluations: float, timeout: float) -> dict[str, Any]:
    """The record of one run, from a new process that an alarm ends after the timeout."""
    script = str(Path(__file__).resolve())
    command = [sys.executable, script, "--one", name, density, str(seed), str(evaluations)]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([*command, "--timeout", str(timeout)], stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        records = [json.loads(text) for text in output if text.startswith("{")]
        last_words = (errors.read().strip().splitlines() or [""])[-1]
    if records:
        return records[-1]
    is_late = process.returncode in (-signal.SIGPROF, -signal.SIGALRM)
    message = f"over {timeout:.0f} s of processor time" if is_late else f"exit code {process.returncode}: {last_words}"
    verdict = "slow" if is_late else "failed"
    return about(seed) | {"verdict": verdict, "message": message, "gib": usage.ru_maxrss / 2**20}


def about(seed: int) -> dict[str, Any]:
    """Where a record comes from."""
    versions = {package: importlib.metadata.version(package) for package in PACKAGES}
    return {"seed": seed, "commit": COMMIT, "versions": versions}


def run_here(name: str, density_name: str, seed: int, evaluations: float) -> dict[str, Any]:
    """One run, judged."""
    warnings.simplefilter("ignore")
    shape = next(shape for shape in SHAPES if shape.case.name == density_name)
    density, started = shape.case.build(), time.perf_counter()
    try:
        if name in ("ours", "symmetric"):
            run = run_ours(density, seed, shape.symmetries if name == "symmetric" else None)
        else:
            run = run_peer(name, shape, density, evaluations, seed)
        record = judged(shape, density, run)
    except Exception as error:
        record = {"verdict": "failed", "message": traceback.format_exception_only(error)[-1].strip()}
    used = resource.getrusage(resource.RUSAGE_SELF)
    cost = {"processor_seconds": used.ru_utime + used.ru_stime, "gib": used.ru_maxrss / 2**20}
    return about(seed) | record | cost | {"total_seconds": time.perf_counter() - started}


def judged(shape: Shape, density: Density, run: Run) -> dict[str, Any]:
    """Verdict, the quantities, and the effective size."""
    rows = judge(density, run.draws, run.evidence)
    is_wrong, is_warned = any(row.is_wrong for row in rows), len(run.warnings) > 0
    verdict = ("warned" if is_warned else "SILENT") if is_wrong else ("warned-right" if is_warned else "right")
    return {
        "verdict": verdict,
        "is_right": not is_wrong,
        "evaluations": run.evaluations,
        "seconds": run.seconds,
        "effective_size": effective_size(shape, density, run.draws),
        "warnings": list(run.warnings),
        "rows": [row.as_dict() for row in rows],
        "details": run.details,
    }


def effective_size(shape: Shape, density: Density, draws: np.ndarray) -> float:
    """Of the worst coordinate, or of the worst indicator of a mode."""
    draws = np.asarray(draws, np.float64)
    if not shape.modes:
        return float(np.min(vj.diagnostics.ess(draws)))
    flat = draws.reshape(-1, density.dim)
    by_name = {quantity.name: quantity.function for quantity in density.quantities}
    values = np.stack([by_name[name](flat).reshape(draws.shape[:2]) for name in shape.modes], axis=-1)
    sizes = vj.diagnostics.ess(values, "mean")
    return float(np.min(np.where(np.isfinite(sizes), sizes, 0.0)))


def line(name: str, density: str, record: dict[str, Any]) -> str:
    """One run in one line."""
    start = f"{name:10}{density:27}{record['verdict']:13}"
    if "rows" not in record:
        return f"{start}{record['message'][:100]}"
    wrong = [row for row in record["rows"] if row["is_wrong"]]
    row = max(wrong or record["rows"], key=lambda row: np.nan_to_num(abs(row["z"])))
    per_thousand = 1000 * record["effective_size"] / record["evaluations"]
    return (
        f"{start}{row['name']:>26}{row['z']:9.3g}{record['evaluations']:12,.0f}{per_thousand:9.3g}"
        f"{record['seconds']:7.1f} s{record['gib']:5.1f} GiB  {' | '.join(record['warnings'])[:150]}"
    )


if __name__ == "__main__":
    main()
