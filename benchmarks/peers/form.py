"""The common form: the targets with their boxes, what a run of a sampler leaves, and how it is timed and judged.

Every sampler is a module of this folder with

- ``NAME``, ``PACKAGE`` (skipped where it is not installed) and ``NUM_SEEDS`` (the most seeds, for the slow ones),
- ``grid(case)``: the settings that ``tune.py`` tries,
- ``run(case, settings, budget, seed) -> Outcome``, budget 1 being the whole of it and 1/4 a quarter.

One gradient or one density value of the target is one evaluation. All samplers know the same of a target: a box that
holds its modes.
"""

import functools
import importlib
import importlib.util
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj

T = vj.targets
RESULTS = Path(__file__).resolve().parent.parent / "results" / "peers"
MODULES = ("iid", "ours", "bridged", "smc", "tempering", "nested", "flow", "nuts")
FOUND = 0.1  # a mode is found when the draws give it at least this share of its weight


class Case(NamedTuple):
    """A target with the box of the starts, and the standard deviations of its modes (for grids of step sizes)."""

    name: str
    target: Any
    low: float
    high: float
    scales: tuple[float, ...]

    @property
    def dim(self) -> int:
        """Dimension of the target."""
        return self.target.dim

    @property
    def centre(self) -> float:
        """Centre of the box, alike in every coordinate."""
        return 0.5 * (self.low + self.high)

    @property
    def spread(self) -> float:
        """Standard deviation of a coordinate of a uniform draw from the box."""
        return (self.high - self.low) / np.sqrt(12.0)

    def starts(self, rng_key: Any, num: int) -> Any:
        """Uniform draws from the box."""
        return jax.random.uniform(rng_key, (num, self.dim), minval=self.low, maxval=self.high)

    def prior_draws(self, rng_key: Any, num: int) -> Any:
        """Draws of the Gaussian with the mean and the variance of the box."""
        return self.centre + self.spread * jax.random.normal(rng_key, (num, self.dim))

    def log_prior(self, x: Any) -> Any:
        """Its log density: smooth, unlike the box's, so that trajectories meet no wall."""
        return jnp.sum(jax.scipy.stats.norm.logpdf(x, self.centre, self.spread))

    def log_likelihood(self, x: Any) -> Any:
        """What turns that Gaussian into the target: a path of temperatures ends at the target itself."""
        return self.target.logdensity(x) - self.log_prior(x)


@functools.cache
def cases() -> dict[str, Case]:
    """All targets by name."""
    pairs = [
        Case(f"E3 m = {m}, d = {d}", T.high_dimensional_pair(d, float(m)), -5.0, 5.0, (1.0,))
        for m in (1, 3)
        for d in (8, 32, 128)
    ]
    all_cases = [
        Case("far pair", T.far_pair(0.7), -10.0, 10.0, (1.0,)),
        *pairs,
        Case("E4 three modes", T.three_modes(), -40.0, 40.0, (1.0, 3.0)),
        Case("E4 narrow pair", T.narrow_pair(), -8.0, 8.0, (0.1, 0.3)),
        Case("unequal pair", T.unequal_pair(), -8.0, 8.0, (0.1, 1.0)),
        Case("GMM-40", T.gmm40(), -50.0, 50.0, (1.3,)),
        Case("20 modes", T.twenty_modes(), 0.0, 10.0, (0.1,)),
    ]
    return {case.name: case for case in all_cases}


class Outcome(NamedTuple):
    """What one run leaves.

    Attributes
    ----------
    draws
        Shape (n, d).
    log_weights
        Shape (n,), or None where all draws weigh alike.
    num_gradients, num_densities
        Evaluations of the target.
    seconds
        Time of the run without compiling.
    compile_seconds
        Tracing and compiling, which the first run of its shapes pays.
    production_seconds, production_evaluations
        The part after warm-up, burn-in or fit; None where there is no such part.
    num_groups
        Independent equal parts that the draws consist of, in order: chains.
    phases
        Seconds and evaluations by name, where a sampler reports them.
    """

    draws: Any
    log_weights: Any
    num_gradients: float
    num_densities: float
    seconds: float
    compile_seconds: float
    production_seconds: float | None = None
    production_evaluations: float | None = None
    num_groups: int = 1
    phases: dict[str, Any] | None = None

    @property
    def num_evaluations(self) -> float:
        """Gradients and density values."""
        return self.num_gradients + self.num_densities


def is_installed(package: str) -> bool:
    """Whether a sampler's package can be imported."""
    return importlib.util.find_spec(package) is not None


class Timed(NamedTuple):
    """A compiled program and what compiling it took."""

    program: Callable
    compile_seconds: float


def compiled(program: Callable, *arguments: Any) -> Timed:
    """A function of a key (and of arguments like these), compiled and warmed up by one run."""
    started = time.perf_counter()
    ready = jax.jit(program).lower(jax.random.key(0), *arguments).compile()
    compile_seconds = time.perf_counter() - started
    jax.block_until_ready(ready(jax.random.key(12345), *arguments))  # buffers and threads of a first run
    return Timed(ready, compile_seconds)


def timed(timed_program: Timed, rng_key: Any) -> tuple[Any, float]:
    """The program's value for the key, and its seconds."""
    started = time.perf_counter()
    value = jax.block_until_ready(timed_program.program(rng_key))
    return value, time.perf_counter() - started


@functools.partial(jax.jit, static_argnames="num_groups")
def _moments(target: Any, draws: Any, log_weights: Any, num_groups: int) -> tuple[Any, ...]:
    """Weights of the modes, in all and of each group, mean and variance of the coordinates."""
    weights = jax.nn.softmax(log_weights)
    shares = jax.vmap(target.mode_responsibilities)(draws)
    mean = weights @ draws
    groups = jnp.mean(shares.reshape(num_groups, -1, shares.shape[1]), axis=1)
    return weights @ shares, groups, mean, weights @ (draws - mean) ** 2


def judge(case: Case, outcome: Outcome) -> dict[str, Any]:
    """Figures of one run, as plain numbers."""
    target = case.target
    draws = jnp.asarray(outcome.draws).reshape(-1, case.dim)
    log_weights = jnp.zeros(len(draws)) if outcome.log_weights is None else jnp.asarray(outcome.log_weights)
    shares, groups, mean, variance = (
        np.asarray(a, np.float64) for a in _moments(target, draws, log_weights, outcome.num_groups)
    )
    truth, true_variance = target.mode_weights, np.diag(target.covariance)
    deviation = (groups - truth) ** 2
    record = {
        "weight_error": 0.5 * np.abs(shares - truth).sum(),
        "squared_error": np.mean((shares - truth) ** 2),
        "squared_error_of_a_group": np.mean(deviation) if outcome.num_groups > 1 else None,
        "num_groups": outcome.num_groups,
        "mean_error": np.sqrt(np.mean((mean - target.mean) ** 2 / true_variance)),
        "variance_error": np.sqrt(np.mean((variance / true_variance - 1) ** 2)),
        "modes_found": int(np.sum(shares >= FOUND * truth)),
        "num_draws": len(draws),
        "num_gradients": outcome.num_gradients,
        "num_densities": outcome.num_densities,
        "seconds": outcome.seconds,
        "compile_seconds": outcome.compile_seconds,
        "production_seconds": outcome.production_seconds,
        "production_evaluations": outcome.production_evaluations,
        "phases": outcome.phases,
    }
    return {name: _plain(value) for name, value in record.items()}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, dict | int):
        return value
    return float(f"{float(value):.6g}")


def hashable(settings: dict[str, Any]) -> tuple:
    """Settings as a key of a cache."""
    return tuple(sorted(settings.items()))


def samplers() -> dict[str, Any]:
    """Modules of the samplers by short name, without those whose package is not installed."""
    found = {}
    for name in MODULES:
        module = importlib.import_module(name)
        if is_installed(module.PACKAGE):
            found[name] = module
        else:
            print(f"{module.NAME}: skipped, {module.PACKAGE} is not installed", flush=True)
    return found


def chosen(names: Sequence[str] | None, available: dict[str, Any], what: str) -> dict[str, Any]:
    """The named ones of those there are, or all."""
    by_label = {getattr(value, "NAME", key).lower(): key for key, value in available.items()}
    keys = [by_label.get(name.lower(), name) for name in names or available]
    unknown = [key for key in keys if key not in available]
    if unknown:
        raise SystemExit(f"unknown {what} {unknown[0]!r}; there are: {', '.join(available)}")
    return {key: available[key] for key in keys}


def read(path: Path) -> dict[str, Any]:
    """A results file, or nothing where there is none."""
    if not path.exists():
        return {}
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise SystemExit(f"{path} is not JSON ({error}): delete it to start anew") from None


def write(path: Path, content: dict[str, Any]) -> None:
    """A results file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(content, separators=(",", ":")) + "\n")
    draft.replace(path)
