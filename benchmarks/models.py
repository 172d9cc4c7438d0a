"""What a model costs that was not written for this package, on the velocities of 82 galaxies.

Time per gradient of the log density that ``from_numpyro`` and ``from_pymc`` give, divided by that of the same log
density written by hand, for one position and for 64 at once. All in one process, alternating, compile time apart; the
figure is the smallest of the repeats, which are many and short.

Then the whole way, for NumPyro and for PyMC: one call of ``sample``, the weights of the six modes with their errors,
and how many programs a second data set of the same shape compiles.

    python benchmarks/models.py
"""

import argparse
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pymc as pm
from galaxies import VELOCITIES
from provenance import commit

import vhmc_jax as vj

COMPILED = "/jax/core/compile/backend_compile_duration"
COMPONENTS = 3


def numpyro_model(y):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(COMPONENTS)))
    with numpyro.plate("component", COMPONENTS):
        mean = numpyro.sample("mean", dist.Normal(20.0, 10.0))
    scale = numpyro.sample("scale", dist.LogNormal(0.5, 0.5))
    with numpyro.plate("galaxy", len(y)):
        numpyro.sample("velocity", dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(mean, scale)), obs=y)


def pymc_model():
    with pm.Model(coords={"component": list(range(COMPONENTS))}) as model:
        y = pm.Data("y", VELOCITIES)
        weights = pm.Dirichlet("weights", np.ones(COMPONENTS), dims="component")
        mean = pm.Normal("mean", 20.0, 10.0, dims="component")
        scale = pm.LogNormal("scale", 0.5, 0.5)
        pm.NormalMixture("velocity", weights, mean, scale, observed=y)
    return model


def by_hand(y, position):
    """The posterior on unconstrained space, up to a constant: stick breaking for weights, a logarithm for the scale."""
    offsets = jnp.log(jnp.arange(COMPONENTS - 1, 0, -1.0))
    sticks = position["weights"] - offsets
    log_stick, log_rest = -jnp.logaddexp(0.0, -sticks), -jnp.logaddexp(0.0, sticks)
    before = jnp.concatenate([jnp.zeros(1), jnp.cumsum(log_rest)])
    log_weights = before + jnp.concatenate([log_stick, jnp.zeros(1)])
    log_det = jnp.sum(log_stick + log_rest + before[:-1])
    mean, log_scale = position["mean"], position["scale"]
    z = (y[:, None] - mean) * jnp.exp(-log_scale)
    log_parts = log_weights - 0.5 * z**2 - log_scale - 0.5 * np.log(2 * np.pi)
    greatest = jax.lax.stop_gradient(jnp.max(log_parts, axis=1, keepdims=True))
    likelihood = jnp.sum(jnp.log(jnp.sum(jnp.exp(log_parts - greatest), axis=1)) + greatest[:, 0])
    prior = -0.5 * jnp.sum(((mean - 20.0) / 10.0) ** 2) - 0.5 * ((log_scale - 0.5) / 0.5) ** 2
    return likelihood + prior + log_det


def gradient_loop(logdensity_fn, positions):
    """A compiled loop of gradient steps on all positions."""
    gradient = jax.vmap(jax.grad(logdensity_fn))

    @functools.partial(jax.jit, static_argnames="num_turns")
    def run(positions, num_turns):
        def turn(_, x):
            return jax.tree.map(lambda a, g: a + 1e-6 * g, x, gradient(x))

        return jax.lax.fori_loop(0, num_turns, turn, positions)

    return lambda num_turns: jax.block_until_ready(run(positions, num_turns))


def seconds(function, *arguments):
    started = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - started


def ratios(problems, num_positions, num_repeats, budget):
    """Time per gradient of each problem over that by hand."""
    given = problems["numpyro"]
    positions = jax.vmap(given.region)(jax.random.split(jax.random.key(0), num_positions))
    density = jax.tree_util.Partial(by_hand, jnp.asarray(VELOCITIES))
    differences = jax.vmap(given.logdensity_fn)(positions) - jax.vmap(density)(positions)
    assert float(jnp.ptp(differences)) < 1e-8 * float(jnp.abs(differences[0]) + 1e6), (
        "they are the same, up to a constant"
    )
    loops = {"by hand": gradient_loop(density, positions)}
    for name, problem in problems.items():
        starts = jax.vmap(problem.region)(jax.random.split(jax.random.key(0), num_positions))
        loops[name] = gradient_loop(problem.logdensity_fn, starts)
    for loop in loops.values():
        loop(10)
    num_turns = max(10, int(budget / min(seconds(loops["by hand"], 200) / 200 for _ in range(5))))
    rows = [[seconds(loop, num_turns) / num_turns for loop in loops.values()] for _ in range(num_repeats)]
    hand, *others = np.min(rows, axis=0)
    relative = "".join(f"; {name} {best / hand:.2f} ×" for name, best in zip(problems, others, strict=True))
    print(f"  {num_positions} positions: {1e6 * hand:.1f} µs by hand{relative}", flush=True)


def whole_way(name, problem_of):
    """One call of ``sample`` on the data, and one on other data of the same shape."""
    result = vj.sample(jax.random.key(0), problem_of(VELOCITIES), progress=False)
    weights = ", ".join(
        f"{weight:.3f} ± {error:.3f}" for weight, error in zip(result.modes.weights, result.modes.errors, strict=True)
    )
    print(f"{name}: {len(result.modes.weights)} modes, weights {weights}")
    print(f"  draws of {', '.join(f'{k} {v.shape}' for k, v in result.draws.items())}; {len(result.warnings)} warnings")
    events = []

    def hear(event, duration_secs, **_):
        if event == COMPILED:
            events.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(hear)
    taken = seconds(lambda: vj.sample(jax.random.key(0), problem_of(VELOCITIES[::-1] + 0.25), progress=False))
    print(f"  other data of the same shape: {len(events)} programs compiled, {taken:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=0.03, help="time of one repeat by hand")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    model = pymc_model()

    def problem_of_pymc(data):
        with model:
            pm.set_data({"y": data})
        return vj.from_pymc(model)

    print(f"jax {jax.__version__}, numpyro {numpyro.__version__}, pymc {pm.__version__}, commit {commit('benchmarks')}")
    problems = {"numpyro": vj.from_numpyro(numpyro_model, VELOCITIES), "pymc": problem_of_pymc(VELOCITIES)}
    print("Time per gradient over that of the log density by hand")
    for num_positions in (1, 64):
        ratios(problems, num_positions, options.repeats, options.seconds)
    whole_way("NumPyro", lambda data: vj.from_numpyro(numpyro_model, data))
    whole_way("PyMC", problem_of_pymc)


if __name__ == "__main__":
    main()
