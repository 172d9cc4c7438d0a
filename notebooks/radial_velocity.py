# ---
# jupyter:
#   jupytext:
#     formats: py:percent,ipynb
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A star's companion from five radial velocities
#
# A star moves to and fro because something orbits it. Five velocities do not tell the period: orbits of a few days and
# of a year fit as well, and the posterior has about a hundred modes. The data are those of the documentation of
# [The Joker](https://thejoker.readthedocs.io) (Price-Whelan et al. 2017), which samples such posteriors by rejection
# from the prior. That is the truth here, too.

# %%
import warnings

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist

import vhmc_jax as vj

jax.config.update("jax_enable_x64", True)

# %%
days = np.array([0.0, 49.452, 95.393, 127.587, 190.408])
velocities = np.array([38.77, 39.70, 37.45, 38.31, 38.31])  # km/s
ERROR = 0.1  # km/s

# %% [markdown]
# ## The model
#
# Kepler's equation $E - e \sin E = M$ is solved by Halley's method. Two steps of Newton's method after that, which
# change nothing, carry the derivatives, so that the loop need not be differentiated.
#
# The velocity is $v_0 + a (\cos f + e) + b \sin f$ with the true anomaly $f$: linear in $v_0$, $a$ and $b$. Their
# priors are normal, and they are integrated out. The phase is an angle, and the eccentricity lies between 0 and 1: both
# come from one pair of standard normal numbers, the angle of which is uniform, and the length of which gives
# $e \sim \mathrm{Beta}(1, 3)$. So nothing has an edge but the period.


# %%
def eccentric_anomaly(mean_anomaly, e):
    anomaly = mean_anomaly + 0.85 * e * jnp.sign(jnp.sin(mean_anomaly))
    for _ in range(5):
        excess, slope = anomaly - e * jnp.sin(anomaly) - mean_anomaly, 1 - e * jnp.cos(anomaly)
        anomaly = anomaly - excess / (slope - 0.5 * excess * e * jnp.sin(anomaly) / slope)
    anomaly = jax.lax.stop_gradient(anomaly)
    for _ in range(2):
        anomaly = anomaly - (anomaly - e * jnp.sin(anomaly) - mean_anomaly) / (1 - e * jnp.cos(anomaly))
    return anomaly


def shapes(days, period, e, phase):
    """What v0, a and b are multiplied by, (time, 3)."""
    mean_anomaly = jnp.mod(2 * jnp.pi * days / period - phase + jnp.pi, 2 * jnp.pi) - jnp.pi
    anomaly = eccentric_anomaly(mean_anomaly, e)
    cos, sin = jnp.cos(anomaly), jnp.sin(anomaly)
    radius = 1 - e * cos
    return jnp.stack([jnp.ones_like(days), (cos - e) / radius + e, jnp.sqrt(1 - e**2) * sin / radius], axis=-1)


MEANS, VARIANCES = np.array([38.0, 0.0, 0.0]), np.array([10.0, 5.0, 5.0]) ** 2


def model(days, velocities):
    log_period = numpyro.sample("log_period", dist.Uniform(np.log(2.0), np.log(1024.0)))
    pair = numpyro.sample("pair", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    period = numpyro.deterministic("period", jnp.exp(log_period))
    e = numpyro.deterministic("e", 1 - jnp.exp(-jnp.sum(pair**2) / 6))
    columns = shapes(days, period, e, numpyro.deterministic("phase", jnp.arctan2(pair[1], pair[0])))
    covariance = (columns * VARIANCES) @ columns.T + ERROR**2 * jnp.eye(len(days))
    numpyro.sample("velocity", dist.MultivariateNormal(columns @ MEANS, covariance), obs=velocities)


# %% [markdown]
# With 2,048 starts, fewer than would be taken by default, and without a second round this takes about a minute. It is
# right, as is seen below, and warns all the same: there are modes that it has hardly seen, and chains do not yet agree.

# %%
warnings.simplefilter("ignore", vj.TrustWarning)  # they are in result.warnings, too
problem = vj.from_numpyro(model, days, velocities)
result = vj.sample(jax.random.key(0), problem, num_starts=2048, num_pilot=0, progress=False)
print(f"{len(result.modes.weights)} modes")
print("\n".join(result.warnings))

# %% [markdown]
# ## The truth by rejection from the prior
#
# A draw of the prior is kept with probability proportional to its likelihood. To lose nothing, all draws are taken,
# with the likelihood as their weight.


# %%
@jax.jit
def drawn(rng_key):
    positions = jax.vmap(problem.region)(jax.random.split(rng_key, 100_000))
    values, likelihoods = jax.vmap(problem.constrain)(positions), jax.vmap(problem.log_likelihood)(positions)
    return likelihoods["velocity"], values["period"], values["e"]


blocks = [drawn(rng_key) for rng_key in jax.random.split(jax.random.key(5), 20)]
log_likelihoods, periods, eccentricities = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
likelihoods = np.exp(log_likelihoods - log_likelihoods.max())
weights = likelihoods / likelihoods.sum()
print(
    f"{likelihoods.sum():.0f} of {len(weights):,} are kept; the weights are worth {1 / np.sum(weights**2):,.0f} draws"
)
log_evidence = np.log(likelihoods.mean()) + log_likelihoods.max()
log_evidence_error = np.std(likelihoods) / likelihoods.mean() / np.sqrt(len(likelihoods))


# %%
def quantities(period, e):
    """In which octave the period is, and the eccentricity."""
    octaves = [(period >= low) & (period < 2 * low) for low in (2, 4, 8, 16, 32, 64, 128)]
    return np.stack([*octaves, e], axis=-1).astype(float)


NAMES = [*(f"{low:.0f} to {2 * low:.0f} days" for low in (2, 4, 8, 16, 32, 64, 128)), "eccentricity"]
at_prior = quantities(periods, eccentricities)
truth = weights @ at_prior
truth_errors = np.sqrt(weights**2 @ (at_prior - truth) ** 2)


def compared(draws):
    """Means over draws beside the truth, with the difference in standard errors of both."""
    values = quantities(*(np.asarray(draws[name]) for name in ("period", "e")))
    means, rhats = values.mean(axis=(0, 1)), vj.diagnostics.rhat(values)
    scores = (means - truth) / np.hypot(np.nan_to_num(vj.diagnostics.mcse(values)), truth_errors)
    print(f"{'':16}{'truth':>8}{'±':>8}{'mean':>8}{'z':>7}{'R-hat':>7}")
    for row in zip(NAMES, truth, truth_errors, means, scores, rhats, strict=True):
        print("{:16}{:8.4f}{:8.4f}{:8.4f}{:7.1f}{:7.2f}".format(*row))
    return scores


scores = compared(result.draws)
print(f"log evidence {result.log_evidence:.3f} ± {result.log_evidence_error:.3f}, ", end="")
print(f"by rejection {log_evidence:.3f} ± {log_evidence_error:.3f}")
z_evidence = (result.log_evidence - log_evidence) / np.hypot(result.log_evidence_error, log_evidence_error)
assert np.all(np.abs([*scores, z_evidence]) < 4.5) or not result.is_trusted

# %% [markdown]
# ## NUTS
#
# Four chains of NumPyro's NUTS from draws of the prior. Each stays about the period that it comes to first.

# %%
nuts = numpyro.infer.MCMC(
    numpyro.infer.NUTS(model, init_strategy=numpyro.infer.init_to_sample),
    num_warmup=500,
    num_samples=500,
    num_chains=4,
    chain_method="vectorized",
    progress_bar=False,
)
nuts.run(jax.random.key(1), days, velocities)
draws = nuts.get_samples(group_by_chain=True)
compared(draws)
print("median period of each chain, in days:", np.round(np.median(draws["period"], axis=1), 1))

# %% [markdown]
# ## A picture
#
# Left: periods and eccentricities, by rejection (grey) and here (blue). Right: the data, with orbits of some draws
# whose period is above 30 days.

# %%
rng = np.random.default_rng(0)
kept = rng.choice(len(weights), 1000, p=weights)
shown = rng.integers(0, result.draws["period"].size, 1000)
flat = {name: np.ravel(result.draws[name])[shown] for name in ("period", "e", "phase")}
grid = np.linspace(-10, 200, 600)


@jax.jit
@jax.vmap
def orbit(period, e, phase):
    """Velocities at the grid: the mean of the linear parameters given the data."""
    columns = shapes(days, period, e, phase)
    covariance = (columns * VARIANCES) @ columns.T + ERROR**2 * jnp.eye(len(days))
    linear = MEANS + VARIANCES * (columns.T @ jnp.linalg.solve(covariance, velocities - columns @ MEANS))
    return shapes(grid, period, e, phase) @ linear


figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.semilogx(periods[kept], eccentricities[kept], ".", ms=3, color="0.6", label="rejection")
left.semilogx(flat["period"], flat["e"], ".", ms=3, color="C0", label="vj.sample")
left.set(xlabel="period [days]", ylabel="eccentricity")
left.legend(loc="upper right")
is_slow = flat["period"] > 30
orbits = orbit(*(flat[name][is_slow][:60] for name in ("period", "e", "phase")))
right.plot(grid, np.asarray(orbits).T, lw=0.3, color="C0")
right.errorbar(days, velocities, ERROR, fmt="k.")
right.set(xlabel="time [days]", ylabel="velocity [km/s]", ylim=(33, 44))
plt.show()
