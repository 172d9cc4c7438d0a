"""Where the time of ``vj.sample`` goes: its phases on the far pair and on E3 at d = 128, compiling apart.

python benchmarks/peers/phases.py [--targets "far pair" "E3 m = 1, d = 128"] [--budget 1] [--seeds 3]
"""

import argparse
import warnings

import numpy as np
import ours
from form import cases, chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="*", default=["far pair", "E3 m = 1, d = 128"])
    parser.add_argument("--budget", type=float, default=1.0, help="1: the defaults of sample")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.budget <= 0 or options.seeds < 1:
        raise SystemExit("--budget must be positive and --seeds at least 1")
    warnings.simplefilter("ignore")
    for case in chosen(options.targets, cases(), "target").values():
        outcomes = [ours.run(case, {}, options.budget, seed) for seed in range(options.seeds)]
        print(f"\n{case.name}: {outcomes[0].compile_seconds:.1f} s of compiling in a first call; medians of later ones")
        print(f"{'phase':12}{'seconds':>9}{'share':>8}{'gradients':>12}{'densities':>12}")
        runs = [outcome.phases or {} for outcome in outcomes]
        total = float(np.median([outcome.seconds for outcome in outcomes]))
        for name in runs[0]:
            seconds, gradients, densities = (
                float(np.median([run[name][field] for run in runs]))
                for field in ("seconds", "num_gradients", "num_densities")
            )
            print(f"{name:12}{seconds:9.3f}{seconds / total:8.0%}{gradients:12,.0f}{densities:12,.0f}")
        evaluations = np.median([(outcome.num_gradients, outcome.num_densities) for outcome in outcomes], axis=0)
        print(f"{'total':12}{total:9.3f}{1:8.0%}{evaluations[0]:12,.0f}{evaluations[1]:12,.0f}", flush=True)


if __name__ == "__main__":
    main()
