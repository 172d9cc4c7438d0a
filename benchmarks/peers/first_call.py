"""What a first call takes on the far pair, compiling included: several samplers in turn, each in a process of its own.

The samplers take turns, since a machine is not equally fast at all times; what counts is the ratio within a round.
Imports are not timed. Writes ``first_call.json`` beside the results of ``compare.py``, and the page anew.

    python benchmarks/peers/first_call.py [--rounds 7] [--samplers ours nested smc]
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
import page
from compare import environment
from form import RESULTS, cases, chosen, samplers, write
from tune import best_settings

TARGET, SAMPLERS = "far pair", ("ours", "nested", "smc")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--samplers", nargs="*", default=SAMPLERS, help="short names; VHMC is ours")
    parser.add_argument("--one", help="time this one here, and print its seconds")
    options = parser.parse_args()
    if options.rounds < 1:
        raise SystemExit(f"--rounds must be at least 1, got {options.rounds}")
    if options.one:
        print(seconds_here(options.one))
        return
    names = list(chosen(options.samplers, samplers(), "sampler"))
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(options.rounds):
        for name in names:
            seconds[name].append(seconds_elsewhere(name))
        row = "  ".join(f"{page.LABELS[name]} {seconds[name][-1]:.2f} s" for name in names)
        print(f"round {number + 1} of {options.rounds}: {row}", flush=True)
    write(RESULTS / page.FIRST_CALLS, {"environment": environment(), "target": TARGET, "seconds": seconds})
    for name in names[1:]:
        ratios = np.divide(seconds[names[0]], seconds[name])
        print(f"{page.LABELS[names[0]]} / {page.LABELS[name]}: median {np.median(ratios):.2f}", np.round(ratios, 2))
    page.write_page(RESULTS)


def seconds_here(name: str) -> float:
    """The first call in this process: compiling and one run, at the whole budget."""
    module, case = samplers()[name], cases()[TARGET]
    outcome = module.run(case, best_settings(name, module, case), 1.0, 0)
    return round(outcome.compile_seconds + outcome.seconds, 4)


def seconds_elsewhere(name: str) -> float:
    """The same in a new process."""
    command = [sys.executable, str(Path(__file__).resolve()), "--one", name]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if run.returncode:
        raise SystemExit(f"{name} failed: see above")
    return float(run.stdout.split()[-1])


if __name__ == "__main__":
    main()
