"""The results page of the paper's experiments, made from the JSON files: no figure on it is typed by hand.

E5's section is the fragment ``e5.md`` of the same folder, which its own script writes.

    python benchmarks/paper/page.py [--quick] [--output FOLDER]
"""

import textwrap

from common import options, read, shown

DOES, PARTLY, NOT, UNDECIDED = "holds", "holds in part", "does not hold", "undecided"
COUNTED = {DOES: "hold", PARTLY: "in part", NOT: "not", UNDECIDED: "undecided"}


def verdict(*conditions: bool) -> str:
    """Holds where all conditions do, in part where some do."""
    return DOES if all(conditions) else PARTLY if any(conditions) else NOT


def shown_by(*comparisons: bool) -> str:
    """The same for comparisons that noise may hide: what none of them shows is undecided, not refuted."""
    return verdict(*comparisons) if any(comparisons) else UNDECIDED


def table(head: list[str], rows: list[list[str]], align: str = "---:") -> str:
    """A table in Markdown, the first column to the left and the others to the right."""
    lines = [head, ["---", *(align for _ in head[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def reflowed(text: str) -> str:
    """Paragraphs of prose filled to one width; tables, headings, pictures and commands as they are."""
    blocks = [
        block
        if block.startswith(("|", "#", "!", "`", "<"))
        else textwrap.fill(block, 118, break_long_words=False, break_on_hyphens=False)
        for block in text.strip().split("\n\n")
    ]
    return "\n\n".join(blocks) + "\n"


def number(value: float | None, digits: int = 3) -> str:
    """So many significant digits, without an exponent; a dash for nothing."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:#.{digits}g}".rstrip(".")


def with_error(figures: dict, digits: int = 3) -> str:
    return f"{number(figures['mean'], digits)} ± {number(figures['error'], 2)}"


def origin(document: dict) -> str:
    """How a section's figures were made."""
    made = document["made_with"]
    return (
        f"`{made['command']}` (commit {made['commit']}, {made['date']}, Python {made['python']}, JAX {made['jax']}, "
        f"vhmc_jax {made['vhmc_jax']}, {made['cores']} cores, {made['seconds']:.0f} s with compiling)"
    )


def e1(document: dict) -> tuple[list[list[str]], str]:
    settings, results = document["settings"], document["results"]
    samplers = results["samplers"]
    hmc, lhmc, et = samplers["HMC"], samplers["LHMC"], samplers["LHMC-ET, paper's iteration"]
    many, metric = samplers["LHMC-ET, 20 transformations"], samplers["LHMC-ET, fitted metric"]

    def below(one: dict, other: dict) -> bool:
        """Whether a mean MMD² is below another by more than two standard errors of the difference."""
        a, b = one["mmd_end_of_stretches"], other["mmd_end_of_stretches"]
        return b["mean"] - a["mean"] > 2 * (a["error"] ** 2 + b["error"] ** 2) ** 0.5

    longer = samplers["HMC, L = 42"]

    def faster(one: dict, other: dict) -> bool:
        """Whether an IACT is below another by more than two standard errors of the difference."""
        return other["iact"] - one["iact"] > 2 * (one["iact_error"] ** 2 + other["iact_error"] ** 2) ** 0.5

    def iact(figures: dict) -> str:
        return f"{number(figures['iact'])} ± {number(figures['iact_error'], 2)}"

    def discrepancy(figures: dict) -> str:
        return with_error(figures["mmd_end_of_stretches"])

    claims = [
        [
            "E1: LHMC lowers the autocorrelation of HMC",
            shown_by(faster(lhmc, hmc), faster(lhmc, longer)),
            f"IACT {iact(lhmc)} against {iact(hmc)}; but LHMC makes 42 steps and HMC 40, and HMC with 42 has "
            f"{iact(longer)}",
        ],
        [
            "E1: equipotential transformations lower it further",
            shown_by(faster(et, hmc), faster(et, lhmc)),
            f"IACT {iact(et)} with one isotropic transformation",
        ],
        [
            "E1: they lower MMD² as well",
            shown_by(below(et, hmc), below(et, lhmc)),
            f"{discrepancy(et)} against {discrepancy(lhmc)} with LHMC and {discrepancy(hmc)} with HMC",
        ],
    ]
    rows = [
        [
            name,
            f"{figures['autocorrelation']['mean'][10]:z.2f}",
            iact(figures),
            with_error(figures["mmd_end"]),
            with_error(figures["mmd_end_from_origin"]),
            with_error(figures["mmd_end_of_stretches"]),
            number(figures["evaluations"]),
            number(figures["ess_per_1000"], 2),
        ]
        for name, figures in samplers.items()
    ]
    independent = results["independent_draws"]["mmd"]["mean"][-1]
    discrepancy_ratio = hmc["mmd_end_of_stretches"]["mean"] / et["mmd_end_of_stretches"]["mean"]
    text = f"""## E1: a long, narrow Gaussian

![Autocorrelation and MMD² of HMC, LHMC and LHMC-ET](e1.png)

Variances 10² and 10⁻², rotated by π/4; M = 1.2 I, γ = 0.5, ε = 0.05, L = 40, {settings["samples"]} samples,
{settings["runs"]} runs. The paper does not say where runs start: here from exact draws, so that mixing alone is
compared; MMD² from the origin is beside. Its iteration divides a scalar by a vector, which is defined on a line
only, so
that is where it runs (EL = 10, err = 0.01). {number(100 * et["transformed"])} % of its transformations lead back to
where they came from and are kept, against {number(100 * samplers["LHMC-ET"]["transformed"])} % of those with this
library's own iteration; otherwise the two are the same on a Gaussian.

{
        table(
            [
                "",
                "autocorrelation, lag 10",
                "IACT",
                "MMD², 200 samples",
                "from the origin",
                "over longer runs",
                "evaluations a step",
                "ESS / 1,000 evaluations",
            ],
            rows,
        )
    }

IACT, MMD² over longer runs and ESS are of runs that go on: {hmc["samples_of_iact"]:,} samples for HMC and LHMC,
{et["samples_of_iact"]:,} with transformations, cut into stretches of 200 for MMD². So few runs of 200 samples do not
settle an order, as their errors show. 200 independent draws have {number(independent)}.

*Agrees:* LHMC-ET before the others, in autocorrelation and in MMD². One isotropic transformation makes the IACT
{number(hmc["iact"] / et["iact"], 2)} times shorter than HMC's, 20 of them {
        number(hmc["iact"] / many["iact"], 2)
    } times,
and one whose direction has a fitted covariance {number(hmc["iact"] / metric["iact"], 3)} times. Number and metric of
the directions decide what a transformation is worth; the paper makes one, and its iteration has no directions.

*LHMC against HMC:* in a mode so long the IACT goes with the square of a trajectory's length, and (42 / 40)² = 1.10
is what two more steps are worth; HMC with 42 steps has {iact(longer)}, LHMC {iact(lhmc)}. MMD² gains less than the
autocorrelation does ({number(discrepancy_ratio, 2)} times, with one transformation), for a transformation keeps the
energy: x changes its place on the level set, the trajectory alone changes the level, and MMD² with this kernel is
mostly the error of the second moments.

{origin(document)}
"""
    return claims, text


def e2(document: dict) -> tuple[list[list[str]], str]:
    settings, results = document["settings"], document["results"]
    near, far = results["near"], results["far"]
    checks, tuned = far["indicator"], next(iter(far["tuned"].values()), far["samplers"]["VHMC"])
    baselines = [name for name in far["samplers"] if name != "VHMC"]
    never = [far["samplers"][name]["runs_that_never_cross"] for name in baselines]
    worst = max(abs(check["difference"]) for check in checks)
    vhmc, guide_cost = far["samplers"]["VHMC"], far["guide"]["evaluations"]
    near_crossings = (
        0.001 * near["samplers"]["HMC"]["crossings_per_1000"] * (settings["iterations"] - settings["burnin"])
    )
    claims = [
        [
            "E2, far: HMC, MHMC and MGHMC stay in one mode, VHMC samples both",
            verdict(min(never) == settings["runs"], vhmc["runs_that_never_cross"] == 0),
            f"{min(never)} of {settings['runs']} runs of each baseline never cross; VHMC crosses "
            f"{number(vhmc['crossings_per_1000'])} times in 1,000",
        ],
        [
            "E2, far: VHMC's MMD² is the lowest",
            verdict(far["worst_mmd_ratio_from_200"] < 1),
            "from 200 samples on at every sample number, at worst "
            f"{number(far['worst_mmd_ratio_from_200'], 2)} of the best baseline's",
        ],
        [
            "E2, near: VHMC's MMD² is the lowest",
            verdict(near["worst_mmd_ratio_from_200"] < 1),
            f"at worst {number(near['worst_mmd_ratio_from_200'], 2)} of the best baseline's; here the baselines cross "
            f"too, HMC {number(near['samplers']['HMC']['crossings_per_1000'], 2)} times in 1,000",
        ],
    ]
    rows = [
        [
            f"{sampler}, {pair}",
            with_error(figures["mmd_end"]),
            f"{figures['autocorrelation']['mean'][10]:z.2f}",
            f"{figures['autocorrelation_about_own_mean_lag_10']:z.2f}",
            number(figures["crossings_per_1000"], 2),
            f"{figures['runs_that_never_cross']} of {settings['runs']}",
            number(figures["evaluations"]),
            number(figures["ess_of_mode_per_1000"], 2),
        ]
        for pair, figures_of_pair in (("near", near), ("far", far))
        for sampler, figures in figures_of_pair["samplers"].items()
    ]
    rows += [
        [
            f"VHMC, far, {name}",
            "", "", "", "", "",
            number(figures["evaluations"], 2),
            number(figures["ess_of_mode_per_1000"], 2),
        ]
        for name, figures in far["tuned"].items()
    ]  # fmt: skip
    checks_rows = [
        [
            f"{check['beta']:g}, ε = {check['trajectory']['step_size']:g}",
            f"{check['jump_acceptance']:.4f}",
            f"{check['second_stage_accepted']:.5f}",
            f"{check['predicted']:.4f}",
            f"{check['measured']:.4f} ± {check['error']:.4f}",
        ]
        for check in checks
    ]
    text = f"""## E2: two Gaussians, near and far

![MMD² and autocorrelation over the runs](e2.png)

![Scatter of one run](e2_scatter.png)

½ N(μ, I) + ½ N(−μ, I), μ = (2.5, −2.5) and (6.5, −6.5); {settings["iterations"]:,} iterations of which
{settings["burnin"]:,} are burn-in, L ~ U(80, 120), ε = 0.05, γ = 0.5, start (0, 0), {
        settings["runs"]
    } runs. The field of
MHMC and the exponent of MGHMC, which the paper does not name, are {settings["field"]:g} and {settings["exponent"]:g};
β = {settings["jump_probability"]:g}. The guide is found and fitted from starts in a box, at {
        guide_cost:,} evaluations for
the far pair: as many as {guide_cost / far["samplers"]["HMC"]["evaluations"]:,.0f} iterations of HMC, once for all runs.

{
        table(
            [
                "",
                "MMD² at the end",
                "autocorrelation, lag 10, about the true mean",
                "about its own mean",
                "crossings in 1,000",
                "runs that never cross",
                "evaluations a step",
                "ESS of the mode / 1,000 evaluations",
            ],
            rows,
        )
    }

The relative error of the mean is undefined here, the true mean being 0. About its own mean, a run that never leaves
its mode has no autocorrelation to speak of: that figure cannot show what the experiment is about.

A jump decorrelates the mode whenever it is accepted, and so does a second chance: the lag-1 autocorrelation of the
mode indicator should be 1 − β a − s, with a the acceptance of jumps and s the share of all steps that are accepted
second chances. On the far pair, where no local move crosses:

{table(["β and ε", "a", "s", "predicted", "measured"], checks_rows)}

The largest difference is {worst:.4f}. At ε = 0.05 nearly every local move is accepted, and second chances add next to
nothing; with ε = 0.9 and two steps on average they do, and an evaluation is worth
{number(tuned["ess_of_mode_per_1000"] / vhmc["ess_of_mode_per_1000"], 2)} times as much (last rows of the first table).

*Agrees:* VHMC is the only one to sample the far pair. On the near pair the baselines are slow rather than stuck: a
run of HMC crosses {number(near_crossings, 2)} times.

{origin(document)}
"""
    return claims, text


def e3(document: dict) -> tuple[list[list[str]], str]:
    settings, results = document["settings"], document["results"]
    by_dimension = results["by_dimension"]
    names = list(next(iter(by_dimension.values()))["samplers"])
    largest = by_dimension[str(max(results["dimensions"]))]["samplers"]
    smallest = by_dimension[str(min(results["dimensions"]))]["samplers"]
    distant = [
        sampler
        for dim, figures in by_dimension.items()
        for sampler in figures["samplers"].values()
        if "perfect_jumps" in sampler and int(dim) >= 16
    ]
    far_off = max(abs(sampler["rem_end"]["mean"] / sampler["perfect_jumps"] - 1) for sampler in distant)
    errors = [100 * sampler["rem_end"]["error"] / sampler["perfect_jumps"] for sampler in distant]
    claims = [
        [
            "E3: HMC's REM grows with the dimension, VHMC's stays low",
            verdict(
                largest["HMC"]["rem_end"]["mean"] > 10 * smallest["HMC"]["rem_end"]["mean"],
                far_off < 0.3,
            ),
            f"at d = {max(results['dimensions'])} HMC {number(largest['HMC']['rem_end']['mean'])}, VHMC "
            f"{number(largest['VHMC, β = 0.1']['rem_end']['mean'], 2)} (β = 0.1) and "
            f"{number(largest['VHMC, β = 0.5']['rem_end']['mean'], 2)} (β = 0.5)",
        ],
        [
            "E3: parallel HMC does not do instead",
            verdict(largest["parallel HMC"]["rem_end"]["mean"] > 0.5),
            f"REM {number(largest['parallel HMC']['rem_end']['mean'])} at d = {max(results['dimensions'])}: it gives "
            "each mode one half",
        ],
    ]
    rows = [
        [
            dim,
            *(with_error(figures["samplers"][name]["rem_end"], 3) for name in names),
            *(number(figures["samplers"][name]["perfect_jumps"], 2) for name in names if "VHMC" in name),
            f"{figures['samplers']['VHMC, β = 0.5']['jump_acceptance']:.4f}",
            f"{figures['samplers']['parallel HMC']['weight']['mean']:.3f}",
            f"{figures['samplers']['VHMC, β = 0.5']['weight']['mean']:.3f}",
        ]
        for dim, figures in by_dimension.items()
    ]
    text = f"""## E3: dimension

![REM by dimension and by iteration](e3.png)

0.7 N(−1, I) + 0.3 N(+1, I), every coordinate ∓1. ε = 0.05, L ~ U(80, 120), {
        settings["iterations"]:,} iterations of which
{settings["burnin"]:,} are burn-in, {
        settings["runs"]
    } runs; REM of one run, then the mean over runs. The paper is silent on
starts: HMC and VHMC start at the origin. A run of parallel HMC is one chain from each mode,
{settings["iterations"]:,} iterations between them.

{
        table(
            [
                "d",
                *names,
                "perfect jumps, β = 0.1",
                "β = 0.5",
                "jumps accepted",
                "weight of mode 1, parallel HMC",
                "VHMC, β = 0.5",
            ],
            rows,
        )
    }

"Perfect jumps" is what exact draws at every jump would give if local moves never left a mode: the floor that a finite
number of jumps sets where modes are far apart. From d = 16 on VHMC is within {number(100 * far_off, 2)} % of it, with
errors of {min(errors):.0f} to {max(errors):.0f} %. In low
dimension, d = 2 and 4, local moves cross as well, and VHMC is below it.

This is the best case for a guide. The modes are Gaussian, so the curvature at each gives its covariance exactly, and
the guide is the target but for its defensive component: hence the acceptance in the table. What E3 measures from
d = 16 on is how many jumps there were, not how well a guide can be fitted in high dimension. The same holds for E2, E4
and E6.

*Agrees:* HMC's REM grows with the dimension and VHMC's levels off at that floor. *Does not:* in two dimensions the
modes
are 2.8 standard deviations apart, and plain HMC does as well as anything; the experiment tells samplers apart from
d = 8 on. From d = 32 on each run of HMC sits in one mode, and its REM is 1.5 or 3.5 according to which.

{origin(document)}
"""
    return claims, text


def e4(document: dict) -> tuple[list[list[str]], str]:
    settings, results = document["settings"], document["results"]

    def weights(values: list[float]) -> str:
        return " / ".join(f"{value:.3f}" for value in values)

    rows, conditions = [], []
    for name, title in (("three", "three modes"), ("narrow", "narrow pair")):
        figures = results[name]
        rows.append([f"{title}, truth", weights(figures["truth"]), "", "", ""])
        for sampler, row in figures["samplers"].items():
            rows.append(
                [
                    f"{title}, {sampler}",
                    weights(row["weights"]["mean"]),
                    weights(row["weights"]["sd"]),
                    with_error(row["weight_error"]),
                    number(row["crossings_per_1000"], 2),
                ]
            )
        errors = {sampler: row["weight_error"]["mean"] for sampler, row in figures["samplers"].items()}
        conditions.append(errors["VHMC"] < 0.25 * errors["HMC"])
    claims = [
        [
            "E4: VHMC samples modes of unequal weight and width, HMC does not",
            verdict(*conditions),
            "weight error of a run "
            + "; ".join(
                f"{number(results[name]['samplers']['VHMC']['weight_error']['mean'], 2)} against "
                f"{number(results[name]['samplers']['HMC']['weight_error']['mean'], 2)}"
                for name in ("three", "narrow")
            ),
        ]
    ]
    text = f"""## E4: unequal weights and widths

![Scatter and histograms](e4.png)

Three Gaussians on the line, weights 0.1, 0.8, 0.1, standard deviations 1, 3, 2, and two in the plane, each of
covariance
diag(0.01, 1). The paper does not give the distances: here −20, 0, 20 and ±(4, 0). {settings["iterations"]:,}
iterations of
which {settings["burnin"]:,} are burn-in, ε = 0.05, L ~ U(80, 120), β = {settings["jump_probability"]:g}, starts at the
origin, {settings["runs"]} runs.

{table(["", "weights, mean over runs", "their sd over runs", "weight error of a run", "crossings in 1,000"], rows)}

*Agrees:* a run of HMC has the wrong weights, one of VHMC the right ones up to the error of its number of jumps. Beware
of the mean over runs: started half way between two modes, runs of HMC fall into either, and their average looks right
though every one is wrong.

{origin(document)}
"""
    return claims, text


def e5(document: dict) -> list[list[str]]:
    """The statement about E5; its section is a text of its own."""
    tests = [document["results"]["summary"]["tests"][score] for score in ("accuracy", "auc")]
    is_best = [min(test["average_ranks"], key=test["average_ranks"].get) == "VHMC" for test in tests]
    is_sure = [test["friedman_p"] < 0.05 for test in tests]
    (accuracy, auc), (p_accuracy, p_auc) = (
        (f"{test['average_ranks']['VHMC']:.2f}" for test in tests),
        (f"{test['friedman_p']:.2f}" for test in tests),
    )
    return [
        [
            "E5: VHMC predicts better than LR, VBLR and HMC",
            verdict(*is_best, *is_sure) if any(is_sure) else NOT,
            f"average rank {accuracy} of 4 in accuracy and {auc} in AUC, Friedman p {p_accuracy} and {p_auc}; the "
            "paper's two tables are swapped",
        ]
    ]


def e6(document: dict) -> tuple[list[list[str]], str]:
    settings, results = document["settings"], document["results"]
    parallel, vhmc = results["samplers"]["parallel HMC"], results["samplers"]["VHMC"]
    wrong = results["samplers"]["VHMC, guide of equal weights"]
    paper = results["samplers"]["VHMC, guide of equal weights, paper's jump"]

    def right(figures: dict) -> bool:
        """Whether the weights are within three standard errors of the truth."""
        return abs(figures["weights"][0] - results["truth"][0]) < 3 * figures["errors"][0]

    def weights(figures: dict) -> str:
        pairs = zip(figures["weights"], figures["errors"], strict=True)
        return " / ".join(f"{weight:.4f} ± {error or 0:.4f}" for weight, error in pairs)

    claims = [
        [
            "E6: parallel HMC gives modes equal weights whatever the truth",
            verdict(abs(parallel["weights"][0] - 0.5) < 0.01, right(vhmc)),
            f"{parallel['weights'][0]:.3f} / {parallel['weights'][1]:.3f} where {results['truth'][0]} / "
            f"{results['truth'][1]} is true; VHMC {vhmc['weights'][0]:.3f} / {vhmc['weights'][1]:.3f}",
        ],
        [
            "The method converges to the target",
            verdict(right(paper), right(wrong)),
            f"the jump as printed does not where the envelope is too low: {paper['weights'][0]:.3f} for 0.7 with a "
            f"guide of equal weights (E6); with the envelope's correction {wrong['weights'][0]:.3f}",
        ],
    ]
    basins = " / ".join(f"{share:.2f}" for share in results["basin_shares"])
    rows = [
        [
            name,
            weights(figures),
            number(figures["weight_error"], 2),
            f"{figures['crossings']:,}",
            f"{figures['stuck_chains']} of {settings['chains']}",
            f"{figures['rhat']:.2f}",
        ]
        for name, figures in results["samplers"].items()
    ]
    text = f"""## E6: parallel HMC against the truth

![Histograms of parallel HMC and VHMC](e6.png)

E3's mixture in {settings["dimension"]} dimensions, {settings["chains"]} chains from the modes found, equal numbers at
each, {settings["iterations"]:,} iterations of which {settings["burnin"]:,} are burn-in; both samplers take the
same starts.

{table(["", "weights", "weight error", "crossings", "chains that never crossed", "R-hat"], rows)}

*Agrees:* parallel HMC's weights are those of the starts, and its error, which takes chains for independent draws, does
not cover the truth. R-hat notices here, because chains started in both modes. With a chain from wherever each climb of
the search ended, the weights would be those of the basins, {basins}.

*Does not:* the jump as printed, which takes whatever passes the envelope. With a guide of equal weights it settles at
{paper["weights"][0]:.3f} ± {paper["errors"][0]:.3f}, where min(π, c q) puts it; with the correction for an
envelope that is too low the same guide gives {wrong["weights"][0]:.3f} ± {wrong["errors"][0]:.3f}.

{origin(document)}
"""
    return claims, text


def main() -> None:
    chosen = options(__doc__)
    claims, sections = [], {}
    for name, section in (("e1", e1), ("e2", e2), ("e3", e3), ("e4", e4), ("e6", e6)):
        rows, sections[name] = section(read(chosen, name))
        claims += rows
        if name == "e4" and (chosen.output / "e5.json").exists():
            claims += e5(read(chosen, "e5"))
    fragment = chosen.output / "e5.md"
    placeholder = "## E5: logistic regression\n\n<!-- E5 -->"
    sections["e5"] = (fragment.read_text(encoding="utf-8").strip() if fragment.exists() else placeholder) + "\n"
    order = [sections[name] for name in sorted(sections)]
    found = [row[1] for row in claims]
    counts = ", ".join(f"{found.count(kind)} {words}" for kind, words in COUNTED.items() if kind in found)
    page = f"""# The paper's experiments

Of {len(claims)} statements, {counts}.

{table(["statement", "here", "figures"], claims, align="---")}

What Gu & Sun (2019) claim in their abstract is that their dynamics reduce the autocorrelation, that a variational
distribution makes several modes easy to sample, and that the method converges to the target. For E1 to E4 and E6 the
paper has pictures and no numbers, so the statements above are our reading of what each experiment is meant to show, and
are judged by our own figures, beyond two or three standard errors where noise matters; E5 has tables to compare with.

Each figure below is taken from the JSON file beside this page, which a script writes with its settings; this page is
made by `python benchmarks/paper/page.py`. Where we have no setting of the paper's, what was chosen is said. The kernels
are the exact ones of this library unless the paper's form is named. An evaluation is a gradient, or a density value
without one. Every sampler, target and dimension has random numbers of its own; errors are standard errors over the
runs. Seconds were taken while other work ran on the machine, and are upper bounds.

{chr(10).join(order)}"""
    path = chosen.output / "README.md"
    path.write_text(reflowed(page), encoding="utf-8")
    print(shown(path), flush=True)


if __name__ == "__main__":
    main()
