"""E5: Bayesian logistic regression on eight UCI data sets, LR, VBLR, HMC and VHMC.

Each run is a random 80/20 split, stratified, the features standardised on its training part, with an intercept and
the prior N(0, 100 I). HMC and VHMC have the paper's settings (10,000 iterations, 2,000 of them burn-in, L ~ U(80, 120),
ε = 0.00045, M = 3 I; from θ = 0), and beside them tuned ones: mass and start from Laplace's approximation, ε by dual
averaging, 3 to 6 gradients an iteration. Measured on the test parts: accuracy, AUC and log predictive density; and of
the samplers themselves effective sizes, R-hat and how far the chains have moved.

    python benchmarks/paper/e5_logistic.py [--quick] [--data FOLDER] [--download] [--only HA PI ...]

All runs are one program. They share the rows, each distinct row once; a run has its own numbers of training rows at
each of them and its own standardisation, so that a gradient of all runs is two matrix products. Sets that are finished,
with the same settings, are not run again.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import common
import data
import e5_page
import jax
import jax.numpy as jnp
import numpy as np
from e5_posterior import (
    PRIOR_VARIANCE,
    RIDGE_VARIANCE,
    Problem,
    Run,
    fits,
    log_probabilities,
    logdensity,
    over_runs,
    problem,
    standardised,
    use_every_core,
)
from e5_samplers import (
    FRICTION,
    GUIDE_WEIGHTS,
    GUIDE_WIDTHS,
    JUMP_PROBABILITY,
    METHODS,
    NUM_TRIES,
    PAPER,
    PREDICT_EVERY,
    TUNED,
    TUNED_STEPS,
    Outcome,
    predictive,
    sample,
    sampler_of,
    tune,
    with_guide,
)
from scipy import stats
from vblr import maximum_a_posteriori

import vhmc_jax as vj

NAME = "e5"
SCORES = ("accuracy", "auc", "log_density")
FULL = {"runs": 100, "burnin": 2000, "samples": 8000, "chunk": 1000, "pilot": 2000}
QUICK = {"runs": 10, "burnin": 200, "samples": 800, "chunk": 200, "pilot": 400}


def scores(problem: Problem, log_probability: np.ndarray) -> dict[str, np.ndarray]:
    """Accuracy and AUC in per cent and mean log predictive density on the test rows, one each for each run."""
    order = np.argsort(problem.is_training, axis=1, kind="stable")
    index = order[:, : np.sum(~problem.is_training[0])]
    labels = problem.table.labels[index]
    negative, positive = (np.take_along_axis(part, index, axis=1) for part in log_probability)
    return figures_of(labels, negative, positive)


def figures_of(labels: np.ndarray, negative: np.ndarray, positive: np.ndarray) -> dict[str, np.ndarray]:
    """The three scores of each row of labels, from the log probabilities of label 0 and label 1."""
    ranks = stats.rankdata(positive - negative, axis=1)
    num_positive = labels.sum(axis=1)
    num_negative = labels.shape[1] - num_positive
    wins = np.sum(ranks * labels, axis=1) - num_positive * (num_positive + 1) / 2
    return {
        "accuracy": 100 * np.mean((positive >= negative) == labels, axis=1),
        "auc": 100 * wins / (num_positive * num_negative),
        "log_density": np.mean(np.where(labels == 1, positive, negative), axis=1),
    }


def in_sample(table: data.Table) -> dict[str, float]:
    """Scores of LR fitted to and judged on all rows."""
    everything = np.ones((1, len(table.labels)), bool)
    design = standardised(table.features, *data.standardisation(table.features, everything))[0]
    with jax.enable_x64(True):
        variance = np.full(design.shape[1], RIDGE_VARIANCE)
        target = vj.targets.LogisticRegressionTarget(design, table.labels.astype(float), variance)
        logits = design @ np.asarray(maximum_a_posteriori(target).mean)
    found = figures_of(table.labels[None], -np.logaddexp(0, logits)[None], -np.logaddexp(0, -logits)[None])
    return {name: float(values[0]) for name, values in found.items()}


def chain_figures(outcome: Outcome, mean: np.ndarray, deviation: np.ndarray) -> dict:
    """Effective sizes, R-hat and how far the chains went.

    The draws are standardised with each run's posterior mean and standard deviation, so that the chains of all runs
    have one and the same target to agree on.
    """
    draws = ((outcome.draws - mean) / deviation).astype(np.float32)
    size = float(np.min(vj.diagnostics.ess(draws, "mean")))
    count = draws.shape[0] * draws.shape[1]
    info = outcome.info
    evaluations = info["num_gradients"] + info["num_densities"]
    jumps = info.get("is_jump", 0.0)
    second = info.get("is_second_stage", 0.0)
    return {
        "ess_per_iteration": size / count,
        "ess_per_1000_gradients": 1000 * size / (count * info["num_gradients"]),
        "gradients_per_iteration": info["num_gradients"],
        "evaluations_per_iteration": evaluations,
        "rhat": float(np.max(vj.diagnostics.rhat(draws[:, :: max(1, draws.shape[1] // 2000)]))),
        "explored": float(np.min(np.median(draws.std(axis=1), axis=0))),
        "mean_error": float(np.max(np.sqrt(np.mean(draws.mean(axis=1) ** 2, axis=0)))),
        "acceptance": info["acceptance_rate"],
        "divergent": info["is_divergent"],
        "jump_acceptance": info["jump_accepted"] / jumps if jumps else None,
        "second_stage": second if jumps else None,
        "seconds": outcome.seconds,
        "core_seconds": outcome.core_seconds,
        "compile_seconds": outcome.compile_seconds,
    }


def speed(problem: Problem) -> dict[str, float]:
    """Microseconds of the processor for a gradient of all runs, and for its two matrix products alone."""
    rows, num_runs, repeats = problem.rows, len(problem.is_training), 300

    def gradients(run: Run, theta: Any) -> Any:
        return jax.lax.fori_loop(
            0, repeats, lambda _, x: x + 1e-6 * jax.grad(logdensity, argnums=2)(rows, run, x), theta
        )

    def products(run: Run, theta: Any) -> Any:
        return jax.lax.fori_loop(0, repeats, lambda _, x: 1e-3 * jnp.matmul(jnp.matmul(rows, x), rows), theta)

    theta = np.zeros((num_runs, rows.shape[1]), np.float32)
    functions = {"products": over_runs(products, num_runs), "gradient": over_runs(gradients, num_runs)}
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(7):
        for name, function in functions.items():
            began = time.process_time()
            jax.block_until_ready(function(problem.runs, theta))
            times[name].append(time.process_time() - began)
    return {name: 1e6 * min(taken) / repeats for name, taken in times.items()}


def experiment(key: str, table: data.Table, sizes: dict[str, int]) -> dict:
    """Everything about one data set."""
    began = time.perf_counter()
    this = problem(table, sizes["runs"], seed=0)
    num_burnin, num_chunks = sizes["burnin"] // sizes["chunk"], sizes["samples"] // sizes["chunk"]
    distinct, dim = this.rows.shape
    print(f"{key}: {table.title}, {len(table.labels)} rows, {distinct} of them distinct, {dim} coefficients")
    with common.progress("  LR, Laplace, VBLR"):
        fitted = fits(this)
        found = {method: scores(this, log_probabilities(fitted, method)) for method in ("LR", "VBLR")}
    functions = sampler_of("HMC tuned", this, sizes["chunk"])
    with common.progress("  step sizes, pilot, guide"):
        numbers = tune(this, fitted["Laplace"], seed=1)
        pilot = sample(functions, this, numbers, 2, 1, sizes["pilot"] // sizes["chunk"])
        numbers, expected = with_guide(this, numbers, pilot.draws, seed=3)
    outcomes = {}
    for number, sampler in enumerate((*TUNED, "HMC", "VHMC")):
        with common.progress(f"  {sampler}"):
            if sampler != "HMC tuned":
                functions = sampler_of(sampler, this, sizes["chunk"])
            outcomes[sampler] = sample(functions, this, numbers, 10 + number, num_burnin, num_chunks)
            found[sampler] = scores(this, predictive(this, outcomes[sampler].draws))
    with common.progress("  effective sizes, R-hat"):
        reference = np.concatenate([outcomes[sampler].draws for sampler in TUNED], axis=1)
        mean = reference.mean(axis=1, keepdims=True, dtype=np.float64)
        deviation = reference.std(axis=1, keepdims=True, dtype=np.float64)
        samplers = {sampler: chain_figures(outcome, mean, deviation) for sampler, outcome in outcomes.items()}
    logits = np.einsum("rnd,rd->rn", fitted["designs"], fitted["LR"].mean) * (2 * table.labels - 1)
    is_separable = np.all((logits > 0) | ~this.is_training, axis=1)
    return {
        "title": table.title,
        "rows": len(table.labels),
        "distinct_rows": len(this.rows),
        "coefficients": this.rows.shape[1],
        "rank": int(np.linalg.matrix_rank(this.rows.astype(float))),
        "largest_posterior_sd": float(np.median(np.sqrt(np.linalg.eigvalsh(fitted["Laplace"].covariance)[:, -1]))),
        "median_posterior_sd": float(np.median(deviation)),
        "separable_share": float(is_separable.mean()),
        "converged": {method: float(fitted[method].is_converged.mean()) for method in ("LR", "Laplace", "VBLR")},
        "scores": {
            method: {
                name: {
                    "mean": float(v.mean()),
                    "sd": float(v.std(ddof=1)),
                    "below_vhmc": float(np.mean(found["VHMC"][name] - v)),
                    "below_vhmc_error": float(np.std(found["VHMC"][name] - v, ddof=1) / np.sqrt(len(v))),
                }
                for name, v in values.items()
            }
            for method, values in found.items()
        },
        "in_sample": in_sample(table),
        "samplers": samplers,
        "tuned_step_size": float(np.median(numbers.step_size)),
        "expected_jump_acceptance": expected,
        "seconds": time.perf_counter() - began,
    }


def paper_tables() -> dict[str, dict[str, dict[str, tuple[float, float]]]]:
    """The paper's figures as printed: table, data set, method, mean and spread."""
    lines = Path(__file__).with_name("paper_tables.csv").read_text(encoding="utf-8").splitlines()
    printed: dict = {"accuracy": {}, "auc": {}}
    for line in lines[1:]:
        table, key, *cells = line.split(",")
        numbers = [float(cell) for cell in cells]
        printed[table][key] = dict(zip(METHODS, zip(numbers[::2], numbers[1::2], strict=True), strict=True))
    return printed


def summary(sets: dict[str, dict], num_runs: int) -> dict:
    """Ranks, p-values and distances to the paper's figures, over the data sets."""
    printed = paper_tables()
    ours = {
        name: np.array([[one["scores"][method][name]["mean"] for method in METHODS] for one in sets.values()])
        for name in SCORES
    }
    result: dict = {"tests": {name: rank_tests(values) for name, values in ours.items()}, "paper": printed}
    result |= {"paper_tests": {}, "differences": {}, "spread_ratio": None}
    if not all(key in printed["accuracy"] for key in sets):
        return result

    def of_paper(table: str, column: int = 0) -> np.ndarray:
        return np.array([[printed[table][key][method][column] for method in METHODS] for key in sets])

    swapped = {"accuracy": "auc", "auc": "accuracy"}
    result["paper_tests"] = {name: rank_tests(of_paper(table)) for name, table in swapped.items()}
    for reading, tables in {"as printed": {name: name for name in swapped}, "swapped": swapped}.items():
        distances = np.mean([np.abs(ours[name] - of_paper(table)) for name, table in tables.items()], axis=0)
        result["differences"][reading] = dict(zip(METHODS, distances.mean(axis=0), strict=True))
        rest = distances[[key != "IM" for key in sets]]
        result["differences"][f"{reading}, without IM"] = dict(zip(METHODS, rest.mean(axis=0), strict=True))
    spreads = np.array([[[one["scores"][m][name]["sd"] for m in METHODS] for one in sets.values()] for name in swapped])
    ratio = np.stack([of_paper(table, 1) for table in swapped.values()]) / spreads
    result["spread_ratio"] = {"sd": np.median(ratio), "error": np.median(ratio) * np.sqrt(num_runs)}
    return result


def rank_tests(values: np.ndarray) -> dict:
    """Average ranks of the methods over data sets, values being (set, method), larger better, and p-values."""
    values = np.round(values, 6)
    tests: dict = {
        "average_ranks": dict(zip(METHODS, stats.rankdata(-values, axis=1).mean(axis=0).tolist(), strict=True))
    }
    if len(values) >= 3:
        tests["friedman_p"] = float(stats.friedmanchisquare(*values.T).pvalue)
        tests["wilcoxon_p"] = {
            method: wilcoxon(values[:, METHODS.index("VHMC")] - values[:, i]) for i, method in enumerate(METHODS[:-1])
        }
    return tests


def wilcoxon(differences: np.ndarray) -> float:
    """Two-sided p-value of the signed-rank test; 1 where nothing differs."""
    return float(stats.wilcoxon(np.round(differences, 6)).pvalue) if np.any(differences) else 1.0


def settings_used(sizes: dict[str, int]) -> dict:
    """What the results depend on."""
    return {
        **sizes,
        "paper": PAPER,
        "tuned_steps": TUNED_STEPS,
        "prior_variance": PRIOR_VARIANCE,
        "ridge_variance": RIDGE_VARIANCE,
        "friction": FRICTION,
        "num_tries": NUM_TRIES,
        "jump_probability": JUMP_PROBABILITY,
        "guide_weights": GUIDE_WEIGHTS,
        "guide_widths": GUIDE_WIDTHS,
        "predict_every": PREDICT_EVERY,
        "training_share": data.TRAINING_SHARE,
    }


def finished(options: Any, settings: dict) -> dict[str, dict]:
    """Sets that an earlier call has finished with these settings."""
    try:
        earlier = json.loads((options.output / f"{NAME}.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return {}
    return earlier["results"]["sets"] if earlier.get("settings") == common.rounded(settings) else {}


def without_folder(arguments: list[str]) -> list[str]:
    """The command line with FOLDER in place of the user's folder."""
    hidden = ["--data=FOLDER" if argument.startswith("--data=") else argument for argument in arguments]
    for number, argument in enumerate(arguments[:-1]):
        if argument == "--data":
            hidden[number + 1] = "FOLDER"
    return hidden


def leave(options: Any, settings: dict, sets: dict[str, dict], speeds: dict[str, dict]) -> None:
    """Write what there is so far."""
    results = {"sets": sets, "speed": speeds, "summary": summary(sets, settings["runs"])}
    common.write(options, NAME, settings, results, sum(one["seconds"] for one in sets.values()))


def main() -> None:
    options = common.options(
        __doc__,
        data={"type": Path, "metavar": "FOLDER", "help": f"folder of the eight CSVs; or {data.VARIABLE}, or the cache"},
        download={"action": "store_true", "help": "fetch what the folder lacks"},
        only={"nargs": "+", "metavar": "SET", "help": "run these sets: HA PI MA BL CR IM IN DI"},
    )
    sys.argv = without_folder(sys.argv)
    if not options.draw:
        use_every_core()
        sizes = dict(QUICK if options.quick else FULL)
        sizes["runs"] = common.num_runs(options, sizes["runs"], sizes["runs"])
        if sizes["runs"] < 2:
            raise SystemExit(f"--runs must be at least 2, for spreads, got {sizes['runs']}")
        settings = settings_used(sizes)
        tables = data.tables(options.data, download=options.download)
        if unknown := sorted(set(options.only or ()) - set(tables)):
            raise SystemExit(f"--only takes {', '.join(tables)}, got {', '.join(unknown)}")
        sets = {} if options.quick else finished(options, settings)
        for key, table in tables.items():
            if key in sets:
                print(f"{key}: finished before, with the same settings")
            elif options.only is None or key in options.only:
                sets[key] = common.rounded(experiment(key, table, sizes))
                leave(options, settings, {k: sets[k] for k in tables if k in sets}, {})
        sets = {key: sets[key] for key in tables if key in sets}  # in the paper's order
        with common.progress("time of a gradient"):
            speeds = {key: speed(problem(tables[key], sizes["runs"], seed=0)) for key in sets}
        leave(options, settings, sets, speeds)
    e5_page.draw(options, common.read(options, NAME))


if __name__ == "__main__":
    main()
