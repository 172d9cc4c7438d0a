"""The page of shapes.py: a table of all runs, and what they say of the bars."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from trust_densities.shapes import Shape

LABELS = {
    "ours": "VHMC",
    "symmetric": "VHMC with symmetries",
    "nuts": "NUTS",
    "smc": "tempered SMC",
    "tempering": "parallel tempering",
}
PEERS = ("nuts", "smc", "tempering")
PAGE = """# Modes of any shape

`vj.sample` with its defaults beside BlackJAX's NUTS (window adaptation) and tempered SMC, and parallel tempering of
TensorFlow Probability, on twenty densities with known truth: by formula, quadrature, transfer matrix, symmetry or exact
draws; by two samplers that agree for the lattice's moments, by importance sampling for logistic regression.

All are told the same region. The peers' settings come from grids, those of tempered SMC and of parallel tempering
chosen by the truth of short runs. They get as many evaluations as VHMC took, or a million where it took less; a
gradient and a density value are one evaluation each, and search, fit and warm-up count. *right*: every mean, variance,
probability and log Z (which VHMC alone gives) agrees with the truth; *warned-right*: so it does, with a warning;
*warned*: something is wrong, with a warning; *SILENT*: wrong without a word, as all that the peers get wrong. `worst`
is the quantity with the largest deviation, z its deviation in standard errors. *ESS* is the effective size per 1,000
evaluations of the worst coordinate, or of the worst indicator of a mode where there are several modes; that of a wrong
run stands in brackets. Seconds include compiling for VHMC alone.

The posteriors of labels run with `symmetries=vj.permutations()` too, which the bars do not count.

{bars}

## All runs

{tables}

{doubts}

`python benchmarks/shapes.py --page benchmarks/results/shapes/README.md` makes the page, here of runs that were made one
after another with `--samplers` and `--only`; {made}; 2 cores that others used too: seconds are rough for that reason.
"""


def write_page(path: Path, shapes: Sequence[Shape], records: dict[str, Any]) -> None:
    """Everything there is, as Markdown."""
    names = [name for name in LABELS if name in records]
    runs = [run for name in names for by_density in records[name].values() for run in by_density]
    versions = sorted({f"{package} {v}" for run in runs for package, v in run["versions"].items()})
    commits = sorted({run["commit"] for run in runs})
    seeds = max(len(runs) for name in names for runs in records[name].values())
    made = f"{seeds} seed(s), commits {', '.join(commits)}, {', '.join(versions)}"
    columns = ("density", "sampler", "verdict", "worst", "z", "evaluations", "ESS", "seconds")
    head = "| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|"
    tables = head + "\n" + "\n".join(_table(shape, names, records) for shape in shapes)
    path.parent.mkdir(parents=True, exist_ok=True)
    bars, doubts = _bars(shapes, records), _doubts(shapes, records.get("ours", {}))
    path.write_text(PAGE.format(bars=bars, tables=tables, doubts=doubts, made=made))


def _table(shape: Shape, names: Sequence[str], records: dict[str, Any]) -> str:
    """The rows of one density, a sampler a row."""
    rows, density = [], shape.case.name
    for name in names:
        runs = records[name].get(shape.case.name, [])
        if not runs:
            continue
        counts: dict[str, int] = {}
        for run in runs:
            counts[run["verdict"]] = counts.get(run["verdict"], 0) + 1
        verdict = ", ".join(f"{n} {v}" if len(runs) > 1 else v for v, n in counts.items())
        done = [run for run in runs if "rows" in run]
        if not done:
            rows.append([density, LABELS[name], verdict, runs[0]["message"], "", "", "", ""])
        else:
            wrong = [row for run in done for row in run["rows"] if row["is_wrong"]]
            row = max(wrong or done[0]["rows"], key=lambda row: np.nan_to_num(abs(row["z"])))
            size = f"{1000 * np.median([efficiency(run) for run in done]):.3g}"
            evaluations, seconds = (np.median([run[field] for run in done]) for field in ("evaluations", "seconds"))
            rows.append(
                [density, LABELS[name], verdict, row["name"].replace("|", "\\|"), f"{row['z']:.3g}",
                 f"{evaluations:,.0f}", size if _is_right(runs) else f"({size})", f"{seconds:.0f}"]
            )  # fmt: skip
        density = ""
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _doubts(shapes: Sequence[Shape], ours: dict[str, Any]) -> str:
    """Where VHMC warns or is wrong: what its guide is, how many jumps succeed, and what it says."""
    parts = []
    for shape in shapes:
        for run in ours.get(shape.case.name, []):
            if "rows" not in run or run["verdict"] == "right":
                continue
            details = run["details"]
            guide = f"{details['num_components']} components in {details['num_blocks']} block(s)"
            jumps = f"jumps accepted {details['jumps_accepted']:.3f}, expected {details['expected_acceptance']:.3f}"
            lines = [f"{shape.case.name}, seed {run['seed']}: {run['verdict']}. {details['guide']}, {guide}; {jumps}."]
            wrong = [row for row in run["rows"] if row["is_wrong"]]
            lines += [f"{r['name']} {r['estimate']:.4g} ± {r['error']:.2g}, truth {r['truth']:.4g}" for r in wrong]
            parts.append("\n".join(["- " + lines[0], *("  - " + text for text in [*lines[1:], *run["warnings"]])]))
    return "## Where VHMC warns or is wrong\n\n" + "\n".join(parts) if parts else ""


def efficiency(run: dict[str, Any]) -> float:
    """Effective size per evaluation."""
    return run["effective_size"] / run["evaluations"]


def _is_right(runs: Sequence[dict[str, Any]]) -> bool:
    """Whether there are runs and all of them are right, warned or not."""
    return bool(runs) and all(run.get("is_right", False) for run in runs)


def _score(runs: Sequence[dict[str, Any]]) -> float:
    """Effective size per evaluation, median over the runs; zero where one of them is wrong."""
    return float(np.median([efficiency(run) for run in runs])) if _is_right(runs) else 0.0


def _bars(shapes: Sequence[Shape], records: dict[str, Any]) -> str:
    """What was asked for, and what came."""
    ours = records.get("ours", {})
    peers = [name for name in PEERS if name in records]
    right = [shape for shape in shapes if _is_right(ours.get(shape.case.name, []))]
    by_peer = [s for s in shapes if any(_is_right(records[name].get(s.case.name, [])) for name in peers)]
    lines = [
        f"- VHMC is right on {len(right)} of {len(shapes)} densities (asked: 17 of 20)"
        + _named("; not on ", [s for s in shapes if s not in right])
        + ".",
        f"- It is right on {sum(s in right for s in by_peer)} of the {len(by_peer)} on which a peer is (asked: all)"
        + _named("; not on ", [s for s in by_peer if s not in right])
        + ".",
    ]
    one = [s for s in shapes if not s.modes and s.case.name in records.get("nuts", {})]
    ratios = {s: _ratio(s, ours, [records["nuts"]]) for s in one}
    lines.append(
        f"- One mode: effective size per evaluation at least 0.8 times that of NUTS on "
        f"{sum(r >= 0.8 for r in ratios.values())} of {len(ratios)} (asked: all), above it on "
        f"{sum(r > 1 for r in ratios.values())} (asked: half). {_listed(ratios)}"
    )
    ran = {s: [records[name] for name in peers if s.case.name in records[name]] for s in shapes if s.modes}
    ratios = {s: _ratio(s, ours, theirs) for s, theirs in ran.items() if theirs}
    lines.append(
        f"- Several modes: effective size of the mode per evaluation at least 5 times that of the best peer on "
        f"{sum(r >= 5 for r in ratios.values())} of the {len(ratios)} on which a peer ran (asked: 8 of 11). "
        + _listed(ratios)
    )
    missing = [
        f"{LABELS[name]} on {', '.join(left)}"
        for name in ("ours", *PEERS)
        if (left := [s.case.name for s in shapes if s.modes or name in ("ours", "nuts")
                     if s.case.name not in records.get(name, {})])
    ]  # fmt: skip
    if missing:
        lines.append(f"- Not run: {'; '.join(missing)}.")
    runs = [run for run in ours.get("many-well d = 32", []) if "rows" in run]
    if runs:
        seconds, gib = max(run["seconds"] for run in runs), max(run["gib"] for run in runs)
        lines.append(
            f"- Many-well d = 32: {seconds:.0f} s with compiling, {gib:.1f} GiB (asked: right, in 60 s and 2 GiB)."
        )
    return "## The bars\n\n" + "\n".join(lines)


def _ratio(shape: Shape, ours: dict[str, Any], peers: Sequence[dict[str, Any]]) -> float:
    """Ours over the best peer's; infinite where ours alone is right, NaN where nobody is."""
    best = max((_score(records.get(shape.case.name, [])) for records in peers), default=0.0)
    score = _score(ours.get(shape.case.name, []))
    return score / best if best > 0 else np.inf if score > 0 else np.nan


def _named(start: str, shapes: Sequence[Shape]) -> str:
    return start + ", ".join(shape.case.name for shape in shapes) if shapes else ""


def _listed(ratios: dict[Shape, float]) -> str:
    """Every ratio; a wrong answer has none."""
    said = {np.inf: "∞ (the peers are wrong)", 0.0: "0 (VHMC is wrong, or has no answer)"}
    parts = [
        f"{shape.case.name} {'no figure (all are wrong)' if np.isnan(ratio) else said.get(ratio, f'{ratio:.2g}')}"
        for shape, ratio in ratios.items()
    ]
    return "; ".join(parts) + "." if parts else ""
