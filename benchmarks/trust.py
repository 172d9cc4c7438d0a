"""Right, or says so: ``vj.sample`` with its defaults on densities with known truth, in families.

A run is ``right``; ``warned-right`` (right, but with a warning); ``warned`` (wrong, with a warning); ``SILENT`` (wrong
without a word); ``failed`` (an exception, or a process that died); or ``slow`` (more than 120 s of processor time with
compiling, or more than 4 GiB). Wrong is a quantity that deviates from its truth by more than 4.5 standard errors and by
more than matters in practice, or whose error is too large to be of use: see trust_verdict.py. Modes too small for any
search that knows nothing of them (needles) are counted apart.

Every density runs in a process of its own, one call of ``sample`` a seed; the first call compiles. Seconds are those of
the processors, which other programs on the machine do not change. A call that takes longer than the timeout, or ten
times that by the clock, ends its process. The seeds after it are not tried, and count as slow. ``out/trust.json`` has
every figure of every run.

    python benchmarks/trust.py [--seeds 5] [--only banana funnel] [--families wall box] [--jobs 1] [--timeout 120]
    python benchmarks/trust.py --check-truths
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import jax
import numpy as np
from provenance import commit
from trust_densities import CASES, Case
from trust_verdict import run

OUT = Path(__file__).resolve().parents[1] / "out" / "trust.json"
VERDICTS = ("right", "warned-right", "warned", "SILENT", "failed", "slow")
SLOW_SECONDS, SLOW_GIB = 120.0, 4.0
COMMIT = commit("benchmarks")
SAID: list[str] = []
"""Lines of the table and of the totals."""
PAGE = """# Right, or says so

`vj.sample` with its defaults on densities with known truth. *right*: every mean, variance, probability and log Z
agrees with the truth, and nothing is warned of. *warned-right*: all agree, and yet there is a warning. *warned*:
something is wrong, and there is a warning. *SILENT*: something is wrong, without a word. *slow*: more than 120 s of
processor time, compiling included, or more than 4 GiB. `s` is the processor time of the slowest call. `worst` is the
quantity with the largest deviation, z its deviation in the standard errors that the package gives. Needles are modes
whose basin is smaller than the bound that the mode report states; they are counted apart. Offsets of 10⁶ are warned of
since float32 resolves 0.06 there.

`{command}`, commit {commit}, 2 cores.

```
{table}
```
"""
ADDRESS_SPACE = 24 * 2**30
"""A process that asks for more memory than this fails, before the machine does."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="parts of names")
    parser.add_argument("--families", nargs="*", help="names of families")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--timeout", type=float, default=SLOW_SECONDS, help="processor seconds that one call may take")
    parser.add_argument("--page", type=Path, help="write the table to this file as well")
    parser.add_argument("--check-truths", action="store_true", help="compare the truths with exact draws")
    parser.add_argument("--one", help="run this density here, and print a line of JSON for each seed")
    options = parser.parse_args()
    if options.one:
        run_here(options.one, options.seeds, options.timeout)
        return
    cases = [case for case in CASES if is_chosen(case, options)]
    if not cases:
        raise SystemExit(f"no density has such a name or family; families: {', '.join(families())}")
    if options.check_truths:
        check_truths(cases)
        return
    compare(cases, options)


def is_chosen(case: Case, options: argparse.Namespace) -> bool:
    has_name = not options.only or any(part in case.name for part in options.only)
    return has_name and (not options.families or case.family in options.families)


def families() -> list[str]:
    return list(dict.fromkeys(case.family for case in CASES))


def run_here(name: str, num_seeds: int, timeout: float) -> None:
    """Run every seed in this process. The alarms have no handler: they end the process, whatever that is doing."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    density = next(case for case in CASES if case.name == name).build()
    for seed in range(num_seeds):
        signal.setitimer(signal.ITIMER_PROF, timeout)
        signal.setitimer(signal.ITIMER_REAL, 10 * timeout)
        record = run(density, seed)
        signal.setitimer(signal.ITIMER_PROF, 0)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        if peak > SLOW_GIB or record["seconds"] > SLOW_SECONDS:
            record["verdict"] = "slow"
        print(json.dumps(record | {"gib": peak}), flush=True)


def run_elsewhere(case: Case, num_seeds: int, timeout: float) -> dict[str, Any]:
    """The records of all seeds, from a new process."""
    script = str(Path(__file__).resolve())
    command = [sys.executable, script, "--one", case.name, "--seeds", str(num_seeds), "--timeout", str(timeout)]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        records = [json.loads(line) for line in output if line.startswith("{")]
        last_words = (errors.read().strip().splitlines() or [""])[-1]
    peak, is_late = usage.ru_maxrss / 2**20, process.returncode in (-signal.SIGPROF, -signal.SIGALRM)
    for seed in range(len(records), num_seeds):
        message = f"over {timeout:.0f} s" if is_late else f"exit code {process.returncode}: {last_words}"
        verdict = "slow" if is_late or peak > SLOW_GIB else "failed"
        seconds = timeout if is_late else np.nan
        records.append({"seed": seed, "verdict": verdict, "message": message, "seconds": seconds, "gib": peak})
    return {"name": case.name, "family": case.family, "is_needle": case.is_needle, "runs": records}


def compare(cases: list[Case], options: argparse.Namespace) -> None:
    """The table, a row as soon as a density is done, then the totals."""
    say(f"jax {jax.__version__}, float32, 64 chains of 1,000 draws, {options.seeds} seeds, defaults")
    say(f"{'density':28}{'family':15}{'verdict':>26}{'worst':>18}{'z':>10}{'evaluations':>13}{'s':>7}{'GiB':>6}")
    outcomes = []
    pool = ThreadPoolExecutor(options.jobs)
    futures = [pool.submit(run_elsewhere, case, options.seeds, options.timeout) for case in cases]
    try:
        for future in as_completed(futures):
            outcomes.append(future.result())
            say(table_row(outcomes[-1]))
            OUT.parent.mkdir(exist_ok=True)
            OUT.write_text(json.dumps(outcomes, indent=1))
    finally:
        pool.shutdown(cancel_futures=True)
    print_totals(outcomes)
    if options.page:
        write_page(options.page)


def say(text: str) -> None:
    """Print a line, and remember it for the page."""
    print(text, flush=True)
    SAID.append(text)


def write_page(path: Path) -> None:
    """What was printed, as a page with the command and the commit."""
    command = "python benchmarks/trust.py " + " ".join(sys.argv[1:])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PAGE.format(command=command, commit=COMMIT, table="\n".join(SAID)))


def table_row(outcome: dict[str, Any]) -> str:
    """Verdicts, the worst quantity of all seeds, the median of the evaluations, the longest call."""
    runs = outcome["runs"]
    counts = Counter(record["verdict"] for record in runs)
    verdict = ", ".join(f"{counts[v]} {v}" if len(runs) > 1 else v for v in VERDICTS if counts[v])
    rows = [row for record in runs for row in record.get("rows", [])]
    row = worst(rows) if rows else {"name": runs[0]["message"][:17], "z": np.nan}
    evaluations = [record["evaluations"] for record in runs if "evaluations" in record]
    return (
        f"{outcome['name']:28}{outcome['family']:15}{verdict:>26}{row['name']:>18}{row['z']:10.4g}"
        f"{np.median(evaluations) if evaluations else np.nan:13,.0f}"
        f"{max(record['seconds'] for record in runs):7.1f}{max(record['gib'] for record in runs):6.1f}"
    )


def worst(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The wrong row with the largest deviation in units of what matters; without a wrong one, the largest |z|."""
    wrong = [row for row in rows if row["is_wrong"]]
    if wrong:
        return max(wrong, key=lambda row: abs(row["estimate"] - row["truth"]) / max(row["tolerance"], 1e-30))
    return max(rows, key=lambda row: np.nan_to_num(abs(row["z"])))


def print_totals(outcomes: list[dict[str, Any]]) -> None:
    """Counts, coverage, and the two lists that matter: silent errors and needless warnings."""
    searched = [(o["name"], record) for o in outcomes if not o["is_needle"] for record in o["runs"]]
    needles = [record["verdict"] for o in outcomes if o["is_needle"] for record in o["runs"]]
    counts = Counter(record["verdict"] for _, record in searched)
    say(f"\n{len(searched)} runs: " + ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS))
    if needles:
        say("beyond the search: " + ", ".join(f"{n} {verdict}" for verdict, n in Counter(needles).items()))
    for kind in ("mean", "probability", "log Z"):
        z = [
            row["z"]
            for _, record in searched
            if record["verdict"] in ("right", "warned-right")
            for row in record["rows"]
            if row["kind"] == kind and np.isfinite(row["z"])
        ]
        if z:
            say(f"|z| < 2 where right, {kind}: {100 * np.mean(np.abs(z) < 2):.1f} % of {len(z):,}")
    for name, record in searched:
        if record["verdict"] == "SILENT":
            row = worst(record["rows"])
            text = f"{row['estimate']:.4g} ± {row['error']:.2g}, truth {row['truth']:.4g}, z {row['z']:.4g}"
            say(f"SILENT  {name}, seed {record['seed']}: {row['name']} {text}")
    for name, record in searched:
        if record["verdict"] == "warned-right":
            say(f"needless  {name}, seed {record['seed']}: {' | '.join(record['warnings'])[:200]}")
    for name, record in searched:
        if record["verdict"] in ("failed", "slow"):
            say(f"{record['verdict']}  {name}, seed {record['seed']}: {record.get('message', '')[:200]}")


def check_truths(cases: list[Case]) -> None:
    """Exact draws against the truths; exits with 1 where one disagrees."""
    from trust_check import check

    jax.config.update("jax_enable_x64", True)
    print(f"{'density':28}{'|z| draws':>10}{'|z| Stein':>10}{'log Z off by':>14}{'±':>9}")
    has_failed = False
    for case in cases:
        z, stein, deviation, error, complaints = check(case)
        has_failed |= bool(complaints)
        print(f"{case.name:28}{z:10.2f}{stein:10.2f}{deviation:14.4f}{error:9.4f}  {'; '.join(complaints)}", flush=True)
    raise SystemExit(int(has_failed))


if __name__ == "__main__":
    main()
