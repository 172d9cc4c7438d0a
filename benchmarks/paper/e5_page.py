"""Picture and page of E5, from its JSON alone; ``e5_logistic.py`` calls this at its end, and with ``--draw``."""

import textwrap
from typing import Any

import matplotlib as mpl
import numpy as np
from common import save_picture, shown
from page import number, origin, table

mpl.use("Agg")
import matplotlib.pyplot as plt

METHODS = ("LR", "VBLR", "HMC", "VHMC")
SAMPLERS = ("HMC", "VHMC", "HMC tuned", "VHMC tuned")
COLOURS = {"HMC": "#D55E00", "VHMC": "#0072B2", "HMC tuned": "#E69F00", "VHMC tuned": "#56B4E9"}
SCORES = {"accuracy": "accuracy, %", "auc": "AUC, %"}
OTHER = {"accuracy": "auc", "auc": "accuracy"}


def draw(options: Any, document: dict) -> None:
    """Write ``e5.png`` and ``e5.md`` beside the JSON."""
    save_picture(options, "e5", picture(document))
    path = options.output / "e5.md"
    path.write_text(page(document), encoding="utf-8")
    print(shown(path), flush=True)


def picture(document: dict) -> Any:
    """Our scores against the paper's in both readings, and what the samplers are worth."""
    figure: Any = plt.figure(figsize=(12, 9), layout="constrained")
    above, below = figure.subfigures(2, 1)
    draw_scores(above, document)
    draw_samplers(below, document)
    return figure


def draw_scores(figure: Any, document: dict) -> None:
    sets, printed = document["results"]["sets"], document["results"]["summary"]["paper"]
    keys = list(sets)
    places = np.arange(len(keys))
    of_paper = [place for place, key in enumerate(keys) if key in printed["accuracy"]]
    for axis, (score, label) in zip(figure.subplots(1, 2), SCORES.items(), strict=True):
        for offset, method, colour in ((-0.27, "LR", "#999999"), (-0.12, "VHMC", COLOURS["VHMC"])):
            means, spreads = ([sets[key]["scores"][method][score][name] for key in keys] for name in ("mean", "sd"))
            axis.errorbar(
                places + offset, means, spreads, fmt="o", markersize=5, color=colour, elinewidth=1, capsize=2,
                label=f"{method} here, ± sd over splits",
            )  # fmt: skip
        for offset, source, marker, colour in ((0.06, OTHER[score], "D", "#009E73"), (0.21, score, "x", "#D55E00")):
            reading = "as printed" if source == score else "tables swapped"
            values = [printed[source][keys[place]]["VHMC"][0] for place in of_paper]
            axis.plot(np.array(of_paper) + offset, values, marker, color=colour, label=f"VHMC in the paper, {reading}")
        axis.set(ylabel=label, xticks=places, xticklabels=keys, xlabel="data set")
        axis.grid(axis="y", alpha=0.3)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)


def draw_samplers(figure: Any, document: dict) -> None:
    sets = document["results"]["sets"]
    places = np.arange(len(sets))
    left, right = figure.subplots(1, 2)
    for place, sampler in enumerate(SAMPLERS):
        figures = [one["samplers"][sampler] for one in sets.values()]
        style = {"color": COLOURS[sampler], "label": sampler if "tuned" in sampler else f"{sampler}, paper's settings"}
        offsets = places + 0.2 * (place - 1.5)
        left.bar(offsets, [one["ess_per_1000_gradients"] for one in figures], 0.19, **style)
        right.plot(offsets, [max(one["rhat"] - 1, 1e-5) for one in figures], "o", **style)
    right.axhline(0.01, color="k", linewidth=0.8, linestyle=":")
    right.annotate(
        "1.01", (1.0, 0.01), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points", va="center"
    )
    left.set_ylabel("ESS for 1,000 gradients, slowest coefficient")
    right.set_ylabel("R-hat − 1, slowest coefficient")
    for axis in (left, right):
        axis.set(yscale="log", xticks=places, xticklabels=list(sets), xlabel="data set")
        axis.grid(axis="y", alpha=0.3)
        axis.set_axisbelow(True)
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)


def paragraph(text: str) -> str:
    """The words in lines of the usual length."""
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def spread(figures: dict) -> str:
    return f"{figures['mean']:.1f} ± {figures['sd']:.1f}"


def p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def page(document: dict) -> str:
    """The section of the results page."""
    sets, paper = document["results"]["sets"], document["results"]["summary"]["paper"]
    parts = [
        "## E5: Bayesian logistic regression",
        "![Scores here and in the paper, effective sizes and R-hat](e5.png)",
        *setup(document["settings"], sets),
    ]
    if all(key in paper["accuracy"] for key in sets):
        parts += [*compared(document), *swapped(document), *oddities(document)]
    else:
        parts += [*alone(document)]
    parts += [*densities(document), *tests(document), *differences(document), *samplers(document), *cost(document)]
    return "\n\n".join([*parts, paragraph(f"Made by {origin(document)}.")]) + "\n"


def setup(settings: dict, sets: dict) -> list[str]:
    low, high = settings["paper"]["num_integration_steps"]
    few, more = settings["tuned_steps"]["HMC"]
    share, wide = settings["guide_weights"][1], settings["guide_widths"][1]
    training = 100 * settings["training_share"]
    names = ", ".join(f"{key} {one['title']}" for key, one in sets.items())
    text = f"""
        {names}. {settings["runs"]} runs, each a random split into {training:.0f} % training and {100 - training:.0f} %
        test rows, stratified; features standardised on the training part, an intercept, prior
        N(0, {settings["prior_variance"]:.0f} I). *HMC* and *VHMC* have the paper's settings:
        {settings["burnin"] + settings["samples"]:,} iterations, {settings["burnin"]:,} of them burn-in,
        L ~ U({low}, {high}), ε = {settings["paper"]["step_size"]}, M = 3 I; from θ = 0, since the paper does not say
        where. *Tuned*: M⁻¹ is Laplace's covariance, ε by dual averaging to an acceptance of 0.8, {few} to {more}
        gradients an iteration, from the posterior's maximum. The posteriors have one mode, so VHMC's guide is one
        Gaussian a run (mean and covariance of a tuned pilot run of {settings["pilot"]:,} draws; {100 * share:.0f} % of
        it {wide} times as wide), with jump probability {settings["jump_probability"]} and the envelope that lets the
        most jumps succeed. *LR* is maximum likelihood with a ridge of variance {settings["ridge_variance"]:,.0f}, since
        it has no solution where the training part is separable or columns are collinear. *VBLR* is Jaakkola and
        Jordan's. Predictions of HMC and VHMC average over every {settings["predict_every"]}th draw."""
    return [paragraph(text)]


def alone(document: dict) -> list[str]:
    """Our tables, of data that the paper does not have."""
    sets, methods = document["results"]["sets"], (*METHODS, "HMC tuned", "VHMC tuned")
    parts = []
    for score, label in SCORES.items():
        rows = [[key, *(spread(one["scores"][method][score]) for method in methods)] for key, one in sets.items()]
        parts += [f"**{label}**, mean ± sd over the splits", table(["", *methods], rows)]
    return parts


def compared(document: dict) -> list[str]:
    """Our tables beside the paper's."""
    sets, printed = document["results"]["sets"], document["results"]["summary"]["paper"]
    head = ["", *(f"{method}, here" for method in METHODS), *(f"{method}, paper" for method in METHODS)]
    parts = []
    for score, label in SCORES.items():
        rows = [
            [
                key,
                *(spread(one["scores"][method][score]) for method in METHODS),
                *("{:.1f} ± {:.1f}".format(*printed[OTHER[score]][key][method]) for method in METHODS),
            ]
            for key, one in sets.items()
        ]
        as_printed = "AUC" if score == "accuracy" else "accuracy"
        title = f"**{label}**: mean ± sd over the splits here, beside the paper's table that is printed as {as_printed}"
        parts += [title, table(head, rows)]
    return parts


def swapped(document: dict) -> list[str]:
    """Which of the paper's tables is which."""
    sets, summary = document["results"]["sets"], document["results"]["summary"]
    rows = [
        [reading, *(f"{by_method[method]:.1f}" for method in METHODS)]
        for reading, by_method in summary["differences"].items()
    ]
    above = [
        key for key, one in sets.items()
        if one["scores"]["LR"]["accuracy"]["mean"] < one["scores"]["LR"]["auc"]["mean"]
        and summary["paper"]["accuracy"][key]["LR"][0] > summary["paper"]["auc"][key]["LR"][0]
    ]  # fmt: skip
    below = [
        key for key, one in sets.items()
        if one["scores"]["LR"]["accuracy"]["mean"] > one["scores"]["LR"]["auc"]["mean"]
        and summary["paper"]["accuracy"][key]["LR"][0] < summary["paper"]["auc"][key]["LR"][0]
    ]  # fmt: skip
    text = f"""
        As printed, LR's accuracy is above its AUC where ours is below ({", ".join(above) or "nowhere"}), and below
        where ours is above ({", ".join(below) or "nowhere"}); hence the tables are compared swapped. The paper's ± are
        {summary["spread_ratio"]["sd"]:.2f} times our standard deviations over splits (median), or
        {summary["spread_ratio"]["error"]:.1f} times our standard errors of the mean: they are no spreads over random
        splits of these sizes{", but may be standard errors" if 0.5 < summary["spread_ratio"]["error"] < 2 else ""}."""
    return [
        "*The paper's two tables are evidently swapped.* Mean absolute difference to ours in points, over both tables:",
        table(["", *METHODS], rows),
        paragraph(text),
    ]


def oddities(document: dict) -> list[str]:
    """What is odd about some of the sets."""
    sets, printed = document["results"]["sets"], document["results"]["summary"]["paper"]
    text = """"Dic" is taken to be Diabetic Retinopathy Debrecen, an inference from its scores."""
    if "IM" in sets:
        scores, inside = sets["IM"]["scores"]["LR"], sets["IM"]["in_sample"]
        text += f"""
            IM's figures do not come out held-out: the paper's {printed["auc"]["IM"]["LR"][0]} and
            {printed["accuracy"]["IM"]["LR"][0]} for LR (swapped) are near what LR scores on the rows that it was fitted
            to, {inside["accuracy"]:.1f} and {inside["auc"]:.1f}, and not near its {scores["accuracy"]["mean"]:.1f} and
            {scores["auc"]["mean"]:.1f} on test rows."""
    if "BL" in sets:
        one = sets["BL"]
        text += f"""
            BL has two collinear columns (rank {one["rank"]} with {one["coefficients"]} coefficients): along one
            direction the posterior is the prior alone, of standard deviation {one["largest_posterior_sd"]:.1f}."""
    return [paragraph(text)]


def densities(document: dict) -> list[str]:
    sets, methods = document["results"]["sets"], (*METHODS, "HMC tuned", "VHMC tuned")
    rows = [
        [key, *("{mean:.3f} ± {sd:.3f}".format(**one["scores"][method]["log_density"]) for method in methods)]
        for key, one in sets.items()
    ]
    separable = [
        f"{key} in {100 * one['separable_share']:.0f} %" for key, one in sets.items() if one["separable_share"] > 0
    ]
    note = f"""
        Training parts are separable in some runs ({", ".join(separable)}): there LR's coefficients are as large as
        the ridge lets them be, and its wrong predictions are made with certainty."""
    return [
        "**log predictive density** of a test row, mean ± sd over the splits (the paper has none)",
        table(["", *methods], rows),
        paragraph(note if separable else "No training part is separable."),
    ]


def tests(document: dict) -> list[str]:
    summary, num_sets = document["results"]["summary"], len(document["results"]["sets"])
    kinds = {"accuracy": "accuracy", "auc": "AUC", "log_density": "log predictive density"}
    rows = []
    for source, found in (("here", summary["tests"]), ("paper, swapped", summary["paper_tests"])):
        for name, figures in found.items():
            values = ["–"] * len(METHODS)
            if "friedman_p" in figures:
                found_p = [figures["friedman_p"], *(figures["wilcoxon_p"][method] for method in METHODS[:-1])]
                values = [p_value(value) for value in found_p]
            ranks = [f"{figures['average_ranks'][method]:.2f}" for method in METHODS]
            rows.append([f"{kinds[name]}, {source}", *ranks, *values])
    head = ["", *METHODS, "p, Friedman", *(f"p, VHMC and {method}" for method in METHODS[:-1])]
    title = f"""
        **Average ranks** over {num_sets} data set{"" if num_sets == 1 else "s"}, 1 being the best, with the p-values of
        Friedman's test of the four methods and of Wilcoxon's signed-rank test (two-sided) of VHMC against each other
        one, on the means by data set"""
    return [paragraph(title), table(head, rows)]


def differences(document: dict) -> list[str]:
    """VHMC less each other method, paired by split."""
    sets, scores = document["results"]["sets"], {"accuracy": "accuracy, points", "auc": "AUC, points"}
    rows = []
    for method in (*METHODS[:-1], "HMC tuned", "VHMC tuned"):
        cells = []
        for score in scores:
            figures = [one["scores"][method][score] for one in sets.values()]
            by_set = [one["below_vhmc"] for one in figures]
            beyond = [one["below_vhmc"] / max(one["below_vhmc_error"], 1e-9) for one in figures]
            better, worse = sum(z > 2 for z in beyond), sum(z < -2 for z in beyond)
            cells += [f"{np.mean(by_set):+.2f} ({min(by_set):+.2f} to {max(by_set):+.2f})", f"{better} / {worse}"]
        rows.append([f"VHMC – {method}", *cells])
    head = [""]
    for label in scores.values():
        head += [f"{label}: mean (range) over sets", "sets better / worse by 2 se"]
    claim = [claimed(document)] if document["results"]["summary"]["paper_tests"] else []
    return ["**VHMC less the others**, paired by split", table(head, rows), *claim]


def claimed(document: dict) -> str:
    """Whether the paper's order of the methods comes out."""
    sets, printed = document["results"]["sets"], document["results"]["summary"]["paper"]

    def clear(score: str, method: str, sign: int) -> list[str]:
        """Sets on which VHMC is better (sign 1) or worse (−1) by two standard errors."""
        figures = {key: one["scores"][method][score] for key, one in sets.items()}
        return [key for key, one in figures.items() if sign * one["below_vhmc"] > 2 * one["below_vhmc_error"]]

    gaps = {
        method: np.array([printed[t][key]["VHMC"][0] - printed[t][key][method][0] for t in SCORES for key in sets])
        for method in ("LR", "HMC")
    }
    here = {
        method: [one["scores"][method][score]["below_vhmc"] for score in SCORES for one in sets.values()]
        for method in gaps
    }
    best = all(2 * len(clear(score, method, 1)) > len(sets) for score in SCORES for method in gaps)
    verdict = "is reproduced" if best else "is not reproduced"
    counts = "; ".join(
        f"in {label.removesuffix(', %')} it is better than {method} on {_listed(clear(score, method, 1), sets)} and "
        f"worse on {_listed(clear(score, method, -1), sets)}"
        for method in gaps
        for score, label in SCORES.items()
    )
    text = f"""
        That VHMC predicts best {verdict}. In the paper it is ahead of LR by {gaps["LR"].mean():.1f} points on average
        (at most {gaps["LR"].max():.1f}) and of HMC by {gaps["HMC"].mean():.1f} (at most {gaps["HMC"].max():.1f}), here
        by {np.mean(here["LR"]):.2f} (at most {max(here["LR"]):.1f}) and {np.mean(here["HMC"]):.2f} (at most
        {max(here["HMC"]):.1f}). Beyond two standard errors, {counts}."""
    return paragraph(text)


def samplers(document: dict) -> list[str]:
    sets = document["results"]["sets"]
    figures = {
        "gradients an iteration": ("gradients_per_iteration", 3),
        "ESS an iteration": ("ess_per_iteration", 2),
        "ESS / 1,000 gradients": ("ess_per_1000_gradients", 2),
        "R-hat": ("rhat", 3),
        "explored": ("explored", 2),
        "error of the mean": ("mean_error", 2),
    }
    rows = [
        [f"{key}, {sampler}", *(number(one["samplers"][sampler][name], digits) for name, digits in figures.values())]
        for key, one in sets.items()
        for sampler in SAMPLERS
    ]
    title = """
        **What the settings are worth.** Draws are standardised with each run's posterior mean and sd (of both tuned
        samplers' draws together), so that the chains of all runs have one target to agree on. Of the slowest
        coefficient: effective size, R-hat, the part of the posterior's sd that a chain explores (the chain's sd over
        the posterior's, median run), and the error of a chain's mean in posterior sds (root mean square over runs)"""
    return [paragraph(title), table(["", *figures], rows), paragraph(reading(document))]


def reading(document: dict) -> str:
    """In words what the table of samplers says."""
    sets, settings = document["results"]["sets"], document["settings"]
    hmc = {key: one["samplers"]["HMC"] for key, one in sets.items()}
    vhmc = {key: one["samplers"]["VHMC"] for key, one in sets.items()}
    least = min(hmc, key=lambda key: hmc[key]["explored"])
    deviations = [one["median_posterior_sd"] for one in sets.values()]
    length = np.mean(settings["paper"]["num_integration_steps"]) * settings["paper"]["step_size"]
    length *= np.sqrt(settings["paper"]["inverse_mass_matrix"])
    gains = [
        one["samplers"]["HMC tuned"]["ess_per_1000_gradients"] / hmc[key]["ess_per_1000_gradients"]
        for key, one in sets.items()
    ]
    jumps = [vhmc[key]["jump_acceptance"] for key in sets]
    worse = [key for key in sets if hmc[key]["rhat"] > 1.01]
    worse_vhmc = [key for key in sets if vhmc[key]["rhat"] > 1.01]
    sizes = [settings["samples"] * one["ess_per_iteration"] for one in hmc.values()]
    return f"""
        With the paper's ε, L and M a trajectory is {number(length, 2)} long, and posterior sds are from
        {number(min(deviations), 2)} to {number(max(deviations), 2)} (median coefficient of each set): HMC accepts
        {100 * min(one["acceptance"] for one in hmc.values()):.1f} % of its proposals and creeps.
        {settings["samples"]:,} iterations are worth {number(min(sizes), 2)} to {number(max(sizes), 2)} independent
        draws, R-hat is above 1.01 on {_listed(worse, sets)}, and on {least} a chain explores
        {number(100 * hmc[least]["explored"], 2)} % of the slowest coefficient's sd, its mean off by
        {number(hmc[least]["mean_error"], 2)} sds. VHMC, with the same trajectories, has its jumps, of which
        {number(100 * min(jumps), 2)} to {number(100 * max(jumps), 2)} % are accepted; its R-hat is above 1.01 on
        {_listed(worse_vhmc, sets)}. The tuned settings give HMC {number(min(gains), 2)} to {number(max(gains), 2)}
        times as many effective draws for a gradient, with {settings["tuned_steps"]["HMC"][0]} to
        {settings["tuned_steps"]["HMC"][1]} gradients an iteration."""


def _listed(keys: list[str], sets: dict) -> str:
    return "every set" if len(keys) == len(sets) else ", ".join(keys) or "none"


def cost(document: dict) -> list[str]:
    sets, settings, speeds = document["results"]["sets"], document["settings"], document["results"]["speed"]
    rows = [
        [
            key,
            f"{one['rows']:,} × {one['coefficients']}",
            f"{one['distinct_rows']:,}",
            *(number(speeds.get(key, {}).get(name)) for name in ("products", "gradient")),
            *(number(one["samplers"][name]["core_seconds"]) for name in SAMPLERS),
            number(one["seconds"]),
        ]
        for key, one in sets.items()
    ]
    head = ["", "rows × coefficients", "distinct rows", "two bare products, µs", "gradient, µs"]
    head += [*(f"{name}, s" for name in SAMPLERS), "all by the clock, s"]
    title = f"""
        **Cost.** The {settings["runs"]} runs are one program: a gradient of all of them is two products with the
        shared matrix of distinct rows, and a tanh. Each chain draws its own L, so that an iteration takes as long as
        the longest of them, about {settings["paper"]["num_integration_steps"][1]} gradients. Times are the processor's,
        of all cores together and without compiling; the last column is by the clock, with compiling, fits and
        diagnostics, on a machine that had other work at the same time"""
    return [paragraph(title), table(head, rows)]
