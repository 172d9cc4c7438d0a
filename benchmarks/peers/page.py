"""The page and its picture, from the results of ``compare.py``; every figure on it comes from there."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from form import FOUND, MODULES, RESULTS, cases, read

mpl.use("Agg")
import matplotlib.pyplot as plt

LABELS = {
    "iid": "iid draws",
    "ours": "VHMC",
    "bridged": "VHMC, by bridge",
    "smc": "tempered SMC",
    "tempering": "parallel tempering",
    "nested": "nested slice sampling",
    "flow": "flowMC",
    "nuts": "NUTS",
}
COLOURS = {
    "iid": "#888888",
    "ours": "#D55E00",
    "bridged": "#000000",
    "smc": "#0072B2",
    "tempering": "#009E73",
    "nested": "#CC79A7",
    "flow": "#56B4E9",
    "nuts": "#332288",
}
TITLES = {
    "far pair": "two modes 18 sd apart, d = 2",
    "E4 three modes": "three modes on a line, d = 1",
    "E4 narrow pair": "two narrow modes, d = 2",
    "unequal pair": "a narrow and a wide mode, d = 2",
    "GMM-40": "40 Gaussians, d = 2",
    "20 modes": "20 small modes, d = 2",
}
PEERS = ("smc", "tempering", "nested", "flow", "nuts")
GOAL = 0.01
FIRST_TARGET = "far pair"
"""Of the first calls."""
FIRST_CALLS = "first_call.json"


class Curve:
    """One sampler on one target: means over the seeds by budget, the smallest first."""

    def __init__(self, name: str, case: Any, record: dict[str, Any]) -> None:
        self.name, self.case, self.record = name, case, record
        budgets = sorted(record["budgets"], key=float)
        self.budgets = np.array([float(budget) for budget in budgets])
        self.rows = [record["budgets"][budget] for budget in budgets]
        self.errors = self.mean("weight_error")
        self.seconds = np.array([np.median([row["seconds"] for row in rows]) for rows in self.rows])
        self.evaluations = self.mean("num_gradients") + self.mean("num_densities")
        variance = np.mean(case.target.mode_weights * (1 - case.target.mode_weights))
        self.ess = variance / self.mean("squared_error")
        self.production_ess = self._production_ess(variance)

    def mean(self, field: str) -> np.ndarray:
        """Mean over the seeds of a field, NaN where a sampler does not have it."""
        return np.array([np.mean([np.nan if row[field] is None else row[field] for row in rows]) for rows in self.rows])

    def _production_ess(self, variance: float) -> np.ndarray:
        """By the spread of independent chains about the truth where there are such, by that of the seeds otherwise."""
        by_chains = variance * self.mean("num_groups") / self.mean("squared_error_of_a_group")
        return np.where(np.isfinite(by_chains), by_chains, self.ess)

    def at_one(self) -> int:
        """Index of the whole budget, or of the greatest that was run."""
        whole = np.flatnonzero(self.budgets == 1.0)
        return int(whole[0]) if len(whole) else len(self.budgets) - 1

    def cost_of(self, error: float, costs: np.ndarray) -> float:
        """Least cost at which the mean error is at most this, between budgets by a straight line of the logarithms."""
        reached = np.flatnonzero(self.errors <= error)
        if not len(reached):
            return np.inf
        i = int(reached[0])
        if i == 0 or self.errors[i - 1] <= self.errors[i]:
            return float(costs[i])
        share = np.log(self.errors[i - 1] / error) / np.log(self.errors[i - 1] / self.errors[i])
        return float(np.exp(np.log(costs[i - 1]) + share * np.log(costs[i] / costs[i - 1])))


def read_curves(folder: Path) -> dict[str, dict[str, Curve]]:
    """Curves by sampler and by what a target is, for those who do not know its name."""
    curves: dict[str, dict[str, Curve]] = {name: {} for name in cases()}
    for module in MODULES:
        for target, record in read(folder / f"{module}.json").items():
            if target in curves and record["budgets"]:
                curves[target][module] = Curve(module, cases()[target], record)
    return {title(cases()[target]): by_sampler for target, by_sampler in curves.items() if by_sampler}


def title(case: Any) -> str:
    """What a target is."""
    if case.name in TITLES:
        return TITLES[case.name]
    separation = float(np.linalg.norm(np.diff(np.asarray(case.target.means), axis=0)))
    return f"two modes {separation:.0f} sd apart, d = {case.dim}"


class Bar:
    """One claim on one target: what was measured, what was asked for."""

    def __init__(self, name: str, measured: float, asked: float, *, is_ceiling: bool = True) -> None:
        self.name, self.measured, self.asked = name, measured, asked
        self.is_met = measured <= asked if is_ceiling else measured >= asked

    def __str__(self) -> str:
        mark = "✓" if self.is_met else "✗"
        return f"{_short(self.measured)} (asked {_short(self.asked)}) {mark}"


def bars_of(curves: dict[str, Curve]) -> tuple[str, list[Bar]]:
    """The best peer on a target, and the claims that are measured against it."""
    peers = {name: curves[name] for name in PEERS if name in curves}
    if "ours" not in curves or not peers:
        return "", []
    best = min(peers, key=lambda name: peers[name].errors[peers[name].at_one()])
    peer, ours = peers[best], curves["ours"]
    i, dim = peer.at_one(), ours.case.dim
    bars = []
    for name in ("ours", "bridged"):
        if name in curves:
            vhmc, suffix = curves[name], "" if name == "ours" else ", by bridge"
            evaluations = vhmc.cost_of(peer.errors[i], vhmc.evaluations) / peer.evaluations[i]
            seconds = vhmc.cost_of(peer.errors[i], vhmc.seconds) / peer.seconds[i]
            bars.append(Bar(f"evaluations{suffix}", evaluations, 1 / 20 if dim >= 32 else 1 / 10))
            bars.append(Bar(f"seconds{suffix}", seconds, 1 / 10 if dim >= 128 else 1 / 3 if dim >= 32 else 1.0))
    production = ours.production_ess / ours.mean("production_evaluations")
    bars.append(Bar("production", float(production[ours.at_one()]), 1 / 20, is_ceiling=False))
    return best, bars


def compile_bars(curves: dict[str, Curve], in_turn: dict[str, list[float]]) -> list[tuple[str, Bar]]:
    """The first target, a first call with its compiling, over that of the others.

    From ``first_call.py``, where samplers took turns, the median of the ratios; else from the runs of ``compare.py``.
    """

    def seconds(name: str) -> np.ndarray:
        if name in in_turn and "ours" in in_turn:
            return np.array(in_turn[name])
        curve = curves[name]
        i = curve.at_one()
        return curve.mean("compile_seconds")[i] + curve.seconds[i : i + 1]

    asked = {"flow": 1.0, "nested": 1.0, "smc": 2.0}
    if "ours" not in curves:
        return []
    ours = seconds("ours")
    return [
        (f"{LABELS[name]} {np.median(seconds(name)):.1f} s, VHMC {np.median(ours):.1f} s",
         Bar("first call", float(np.median(ours / seconds(name))), ratio))
        for name, ratio in asked.items()
        if name in curves
    ]  # fmt: skip


def picture(curves: dict[str, dict[str, Curve]]) -> Any:
    """Error against time, a line a sampler, a panel a target."""
    columns = min(4, len(curves))
    rows = -(-len(curves) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.5 * columns, 2.9 * rows + 0.8), layout="constrained", squeeze=False, sharey=True
    )
    for axis, (target, by_sampler) in zip(axes.flat, curves.items(), strict=False):
        for name, curve in by_sampler.items():
            style = {"linestyle": "--"} if name == "iid" else {"marker": "o"}
            axis.loglog(
                curve.seconds, curve.errors, color=COLOURS[name], label=LABELS[name],
                markersize=4, linewidth=2.2 if name == "ours" else 1.3, zorder=3 if name == "ours" else 2, **style,
            )  # fmt: skip
        axis.axhline(GOAL, color="k", linewidth=0.5, linestyle=":")
        axis.set_title(target, fontsize="medium")
        axis.tick_params(labelsize="small")
    for axis in axes.flat[len(curves) :]:
        axis.set_visible(False)
    figure.supxlabel("seconds of a run, compiling apart", fontsize="medium")
    figure.supylabel("error of the mode weights (total variation)", fontsize="medium")
    handles: dict[str, Any] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside upper center",
        ncols=min(2 * columns, len(handles)),
        frameon=False,
    )
    return figure


def write_page(folder: Path) -> None:
    """README.md and error.png in the folder of the results."""
    curves = read_curves(folder)
    if not curves:
        raise SystemExit(f"no results in {folder}: run benchmarks/peers/compare.py first")
    picture(curves).savefig(folder / "error.png", dpi=130)
    plt.close("all")
    verdicts = {target: bars_of(by_sampler) for target, by_sampler in curves.items()}
    parts = [
        "# VHMC beside what one would take instead",
        _verdict(curves, verdicts, read(folder / FIRST_CALLS).get("seconds", {})),
        "![Error of the mode weights against time, a line a sampler](error.png)",
        "*Mean error over the seeds against the median time of a run, compiling apart; each sampler with several "
        "budgets. Lower and further left is better. A panel a target; sd: standard deviation of a mode. "
        f"Dotted: {GOAL}.*",
        _bar_table(curves, verdicts),
        "## Every sampler on every target",
        _table(curves),
        _phases(curves),
        "## How",
        _how(curves, folder),
    ]
    (folder / "README.md").write_text("\n\n".join(part for part in parts if part) + "\n")


def _verdict(
    curves: dict[str, dict[str, Curve]], verdicts: dict[str, tuple[str, list[Bar]]], first_calls: dict[str, list[float]]
) -> str:
    judged = {target: bars for target, (_, bars) in verdicts.items() if bars}
    if not judged:
        return "No verdict: VHMC and at least one peer have to be run on a target."
    lines = []
    claims = {
        "evaluations": "reaches the best peer's weight error with a tenth of its evaluations (a twentieth at d ≥ 32)",
        "seconds": "does so in at most its time (a third at d = 32, a tenth at d = 128)",
        "evaluations, by bridge": "with its weights by bridge sampling reaches that error with a tenth of the peer's "
        "evaluations (a twentieth at d ≥ 32)",
        "seconds, by bridge": "with its weights by bridge sampling does so in at most the peer's time (a third at "
        "d = 32, a tenth at d = 128)",
        "production": "gives in production at least a twentieth of the equivalent sample size of iid draws",
    }
    for name, claim in claims.items():
        met = {target: bar.is_met for target, bars in judged.items() for bar in bars if bar.name == name}
        if not met:
            continue
        missed = [target for target, is_met in met.items() if not is_met]
        text = f"- VHMC {claim}: on {len(met) - len(missed)} of {len(met)} targets"
        lines.append(text + (f"; not on {'; '.join(missed)}." if missed else "."))
    sooner = [target for target in judged if _rough_answer(curves[target])]
    if sooner:
        lines.append(
            "- For a rough answer, in less time than VHMC's search and fit take, a peer is sooner on "
            f"{len(sooner)} of {len(judged)} targets: the last column of the bars says down to which error."
        )
    first = TITLES[FIRST_TARGET]
    lines += [
        f"- {first.capitalize()}, compiling included: {text}; {_short(bar.measured)} times (asked {_short(bar.asked)}) "
        f"{'✓' if bar.is_met else '✗'}."
        for text, bar in compile_bars(curves.get(first, {}), first_calls)
    ]
    return "\n".join(lines)


def _rough_answer(curves: dict[str, Curve]) -> str:
    """The least error that some peer reaches before VHMC does, and their times; empty where there is none."""
    ours = curves["ours"]
    points = [
        (float(error), float(seconds), name)
        for name in PEERS
        if name in curves
        for error, seconds in zip(curves[name].errors, curves[name].seconds, strict=True)
        if ours.cost_of(error, ours.seconds) > seconds
    ]
    if not points:
        return ""
    error, seconds, name = min(points)
    our_seconds = ours.cost_of(error, ours.seconds)
    return f"{_short(error)}: {LABELS[name]} {_short(seconds)} s, VHMC {_short(our_seconds)} s"


def _bar_table(curves: dict[str, dict[str, Curve]], verdicts: dict[str, tuple[str, list[Bar]]]) -> str:
    columns = {
        "evaluations": "evaluations to its error, VHMC / peer",
        "seconds": "time to its error, VHMC / peer",
        "evaluations, by bridge": "evaluations, by bridge",
        "seconds, by bridge": "time, by bridge",
        "production": "production, ESS per evaluation (iid = 1)",
    }
    rows = []
    for target, (best, bars) in verdicts.items():
        if bars:
            peer = curves[target][best]
            i = peer.at_one()
            cost = f"{_short(peer.errors[i])}, {_short(peer.seconds[i])} s, {peer.evaluations[i]:.2g}"
            rough = _rough_answer(curves[target]) or "never"
            by_name = {bar.name: str(bar) for bar in bars}
            rows.append([target, f"{LABELS[best]}: {cost}", *(by_name.get(name, "–") for name in columns), rough])
    head = ["target", "best peer: error, time, evaluations", *columns.values(),
            "a peer is sooner down to an error of"]  # fmt: skip
    note = (
        "The best peer is the one with the lowest mean error at its whole budget. VHMC's cost to that error is from a "
        "cold start (search and fit included), between its budgets by a straight line of the logarithms; ∞ where none "
        "of them reached it. Equivalent sample size (ESS) is w(1 − w) over the mean squared error of a mode's weight "
        "about the truth, averaged over the modes: over seeds, and for production alone over independent chains "
        "where a sampler has such. *By bridge* are the same runs of VHMC, the modes weighed by "
        "`result.evidence.mode_weights`: bridges between the draws and the guide within each mode, which know a weight "
        "better than the share of the draws where the guide fits. The modes of these targets are Gaussian, so that it "
        "fits as well as it ever will; of the 40 Gaussians, which overlap, what belongs to a mode is still counted."
    )
    return f"## The bars\n\n{_markdown(head, rows)}\n\n{note}" if rows else ""


def _table(curves: dict[str, dict[str, Curve]]) -> str:
    rows = []
    for target, by_sampler in curves.items():
        for name, curve in by_sampler.items():
            i = curve.at_one()
            production = curve.production_ess / curve.mean("production_evaluations")
            to_goal = curve.cost_of(GOAL, curve.seconds)
            rows.append(
                [
                    target,
                    LABELS[name] + ("" if curve.budgets[i] == 1 else f" (budget {curve.budgets[i]:g})"),
                    f"{curve.errors[i]:.4f}",
                    _short(curve.seconds[i]),
                    _compiling(curve.mean("compile_seconds")[i]),
                    f"{curve.evaluations[i]:.2g}",
                    _short(curve.ess[i] / curve.seconds[i]),
                    _short(1000 * curve.ess[i] / curve.evaluations[i]),
                    _short(1000 * production[i]),
                    _short(to_goal) if np.isfinite(to_goal) else f"> {_short(curve.seconds[-1])}",
                    _short(curve.mean("mean_error")[i]),
                    _short(curve.mean("variance_error")[i]),
                    f"{curve.mean('modes_found')[i]:.3g} of {len(curve.case.target.mode_weights)}",
                    str(len(curve.rows[i])),
                ]
            )
            target = ""
    head = ["target", "sampler", "weight error", "seconds", "compiling, s", "evaluations", "ESS / s",
            "ESS / 1,000 evaluations", "the same, production", f"seconds to {GOAL}", "mean error", "variance error",
            "modes found", "seeds"]  # fmt: skip
    note = (
        "Whole budget. Error of the mean in standard deviations and relative error of the variance, root mean square "
        f"over the coordinates. A mode is found when the draws give it {FOUND:.0%} of its weight or more."
    )
    return _markdown(head, rows) + "\n\n" + note


def _compiling(seconds: float) -> str:
    """Seconds; a dash where they were not kept, since other programs ran meanwhile."""
    return _short(seconds) if seconds > 0 else "–"


def _phases(curves: dict[str, dict[str, Curve]]) -> str:
    rows = []
    for target, by_sampler in curves.items():
        if "ours" not in by_sampler:
            continue
        curve = by_sampler["ours"]
        runs = [row["phases"] for row in curve.rows[curve.at_one()]]
        for name in runs[0]:
            seconds = float(np.median([run[name]["seconds"] for run in runs]))
            gradients, densities = (
                np.mean([run[name][field] for run in runs]) for field in ("num_gradients", "num_densities")
            )
            rows.append([target, name, f"{seconds:.3f}", f"{gradients:,.0f}", f"{densities:,.0f}"])
            target = ""
    head = ["target", "phase", "seconds", "gradients", "densities"]
    note = (
        "Compiling apart; `python benchmarks/peers/phases.py` prints the same for any budget. At its whole budget the "
        "largest part is production or, in few dimensions and with many modes, judging: the mode report and the "
        "bridges look at every draw. In shorter runs it was the fit and what follows production. Hence the guide is "
        "evaluated at the draws once for the report and the bridges, component by component in memory, which took a "
        "quarter to a half off judging; a jump "
        "evaluates its first try with the gradient at once; one pool of draws weighs the components of the guide, "
        "judges it and starts the chains, sorted once for all modes; burn-in ends when nearly all chains have jumped; "
        "where nearly all jumps succeed they get four fifths of the evaluations, all chains jump at once, and the few "
        "local moves are gathered; a jump has one candidate where nine in ten succeed; the step size follows from the "
        "modes' covariances where these are Gaussian; kernels mostly run one after another; products with tiny "
        "matrices call no library; the bridges' Newton iteration stops at the root."
    )
    return f"## Where VHMC's time goes\n\n{_markdown(head, rows)}\n\n{note}" if rows else ""


def _how(curves: dict[str, dict[str, Curve]], folder: Path) -> str:
    records = [curve.record for by_sampler in curves.values() for curve in by_sampler.values()]
    made_at: dict[str, list[str]] = {}
    for name in MODULES:
        made = {curves[target][name].record["environment"]["commit"] for target in curves if name in curves[target]}
        if made:
            made_at.setdefault(", ".join(sorted(made)), []).append(LABELS[name])
    commits = "; ".join(f"{', '.join(names)} at commit {made}" for made, names in made_at.items())
    dates = sorted({record["environment"]["date"] for record in records})
    latest = max(records, key=lambda record: record["environment"]["date"])["environment"]
    versions = ", ".join(f"{package} {version}" for package, version in latest["versions"].items())
    left_out = [
        f"{LABELS[name]} on {target} (budget {', '.join(f'{b:g}' for b in curve.record['left_out'])})"
        for target, by_sampler in curves.items()
        for name, curve in by_sampler.items()
        if curve.record["left_out"]
    ]
    missing = [
        f"{LABELS[name]} on {target}" for target, by_sampler in curves.items() for name in MODULES
        if name not in by_sampler
    ]  # fmt: skip
    lines = [
        "Code and files of results call the targets by shorter names: "
        + "; ".join(f"`{name}`: {title(case)}" for name, case in cases().items() if title(case) in curves)
        + ". Those of two modes in 8 to 128 dimensions are of the paper's experiment E3, two others of E4.",
        "`python benchmarks/peers/tune.py`, then `python benchmarks/peers/compare.py`; settings and what they were "
        "chosen from: `tuning.json`.",
        "All samplers know the same box of a target. Tempered SMC and parallel tempering start from the Gaussian with "
        "its mean and variance, which has no walls; nested sampling from the uniform density on it; the others from "
        "uniform starts in it. One gradient or one density value is one evaluation, K tries are K, an iid draw is one.",
        f"Python {latest['python']}, {versions}; float32; {latest['machine']}. {commits}. "
        f"{dates[0] if dates[0] == dates[-1] else dates[0] + ' to ' + dates[-1]}.",
    ]
    if first_calls := read(folder / FIRST_CALLS):
        seconds, made = first_calls["seconds"], first_calls["environment"]
        lines.append(
            "First calls with their compiling: `python benchmarks/peers/first_call.py`; "
            f"{', '.join(LABELS[name] for name in seconds)} in turn, each in a process of its own, "
            f"{max(map(len, seconds.values()))} rounds; medians of the seconds and of the ratios. Commit "
            f"{made['commit']}; {made['date']}."
        )
    if left_out:
        lines.append("Left out, since the runs would have taken too long: " + "; ".join(left_out) + ".")
    if missing:
        lines.append("Not run: " + "; ".join(missing) + ".")
    return "\n\n".join(lines)


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)


def _short(value: float) -> str:
    """Two or three figures, with no exponent where one is not needed."""
    if not np.isfinite(value):
        return "∞" if value > 0 else "–"
    if value == 0 or 0.001 <= abs(value) < 10_000:
        return f"{float(f'{value:.3g}'):g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:.2g}"


if __name__ == "__main__":
    write_page(RESULTS)
