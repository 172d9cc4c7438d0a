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
# # mRNA transfection: two rates that nobody can tell apart
#
# A cell is given mRNA at time $t_0$; it makes a fluorescent protein from it. mRNA decays with rate $\delta$, the
# protein with rate $\beta$, and the fluorescence is
# $$\frac{k m_0}{\delta - \beta} \left(e^{-\beta (t - t_0)} - e^{-\delta (t - t_0)}\right), \quad t > t_0.$$
# It stays the same when $\beta$ and $\delta$ are exchanged. So the posterior has two modes of weight ½, each the mirror
# image of the other (Ballnus et al. 2017, BMC Systems Biology 11:63, model M1a).

# %%
import os
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import numpyro

import vhmc_jax as vj

jax.config.update("jax_enable_x64", True)

# %% [markdown]
# ## The data
#
# 150 fluorescences of one cell, from `examples/data/Ballnus_et_al_2017_M1a.csv` of
# [Pigeons.jl](https://github.com/Julia-Tempering/Pigeons.jl), two columns, hours and fluorescence. Name the folder that
# holds it, as `mrna.csv`, by the environment variable `VHMC_JAX_DATA`. Without it, data drawn from the model take its
# place. All that follows is the same; the figures are others.

# %%
names = [os.environ.get("VHMC_JAX_DATA"), "../shared/data", "../../shared/data"]
files = [Path(name) / "mrna.csv" for name in names if name and (Path(name) / "mrna.csv").is_file()]
if files:
    hours, fluorescence = np.loadtxt(files[0], delimiter=",", unpack=True)
else:
    print("mrna.csv is not there: data drawn from the model take its place.")
    hours = 1.75 + np.arange(150) / 6
    rise = np.maximum(hours - 1.5, 0)
    noise = np.random.default_rng(0).normal(0.0, 2.5, 150)
    fluorescence = 12 / (0.174 - 0.0042) * (np.exp(-0.0042 * rise) - np.exp(-0.174 * rise)) + noise
len(hours)

# %% [markdown]
# ## The model
#
# The parameters are decimal logarithms with uniform priors. Where the rates are about the same, the difference above
# cancels; so it is written by $(1 - e^{-u}) / u$ with $u = |\delta - \beta| (t - t_0)$, and by its series where $u$ is
# small.


# %%
def curve(parameters, hours):
    """The fluorescence without noise."""
    t0, km0, beta, delta = (10.0 ** parameters[name] for name in ("t0", "km0", "beta", "delta"))
    time = jnp.maximum(hours - t0, 0)
    u = jnp.abs(delta - beta) * time
    is_small = u < 1e-3
    shape = jnp.where(is_small, 1 - u / 2 + u**2 / 6, -jnp.expm1(-u) / jnp.where(is_small, 1.0, u))
    return km0 * time * jnp.exp(-jnp.minimum(beta, delta) * time) * shape


def logdensity(hours, fluorescence, parameters):
    sigma = 10.0 ** parameters["sigma"]
    z = (fluorescence - curve(parameters, hours)) / sigma
    return -0.5 * jnp.sum(z**2) - len(hours) * jnp.log(sigma)


# %%
warnings.simplefilter("ignore", vj.TrustWarning)  # they are in result.warnings, too
rate = vj.interval(-5.0, 5.0)
limits = {"t0": vj.interval(-2.0, 1.0), "km0": rate, "beta": rate, "delta": rate, "sigma": vj.interval(-2.0, 2.0)}
problem = vj.constrain(jax.tree_util.Partial(logdensity, hours, fluorescence), limits)
result = vj.sample(jax.random.key(0), problem, progress=False)
result

# %%
errors = result.modes.errors
is_right = len(errors) == 2 and np.all(np.abs(result.modes.weights - 0.5) < 4.5 * errors)
assert is_right or not result.is_trusted

# %% [markdown]
# ## The truth by symmetry, and by NUTS within one mode
#
# Both weights are ½. Within one mode NUTS is right: four chains, two from each. With the rates in order they are
# compared with the draws above. As they are, R-hat sees that each chain stays where it started.
#
# The data hardly tell the slower rate from zero, so that its logarithm has a long flat tail down to the end of the
# prior. There the guide has few draws, and chains come and go seldom: with 1,000 draws a chain the tail may be too
# light. Then the result must say so, as it does here.

# %%
kernel = numpyro.infer.NUTS(potential_fn=lambda position: -problem.logdensity_fn(position))
nuts = numpyro.infer.MCMC(
    kernel, num_warmup=500, num_samples=1000, num_chains=4, chain_method="vectorized", progress_bar=False
)
labels = result.modes.labels[:, -1]
chains = np.concatenate([np.flatnonzero(labels == mode)[:2] for mode in (0, 1)])
nuts.run(jax.random.key(1), init_params={name: x[chains, -1] for name, x in result.unconstrained.items()})
draws = problem.constrained(nuts.get_samples(group_by_chain=True))


# %%
def ordered(draws):
    """The slower rate, the faster one, and the others."""
    beta, delta = np.asarray(draws["beta"]), np.asarray(draws["delta"])
    others = {name: np.asarray(draws[name]) for name in ("t0", "km0", "sigma")}
    return {"slower": np.minimum(beta, delta), "faster": np.maximum(beta, delta)} | others


here, there = ordered(result.draws), ordered(draws)
scores = {}
print(f"{'':8}{'here':>9}{'NUTS':>9}{'z':>7}")
for name in here:
    error = np.hypot(vj.diagnostics.mcse(here[name]), vj.diagnostics.mcse(there[name]))
    scores[name] = (here[name].mean() - there[name].mean()) / error
    print(f"{name:8}{here[name].mean():9.4f}{there[name].mean():9.4f}{scores[name]:7.1f}")
assert all(abs(z) < 4.5 for z in scores.values()) or not result.is_trusted

# %%
print("R-hat of beta, NUTS:", np.round(vj.diagnostics.rhat(draws["beta"]), 1))
print("R-hat of beta, here:", np.round(vj.diagnostics.rhat(result.draws["beta"]), 3))

# %% [markdown]
# ## A picture

# %%
rng = np.random.default_rng(0)
shown = rng.integers(0, result.draws["beta"].size, 500)
flat = {name: np.ravel(values)[shown] for name, values in result.draws.items()}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.plot(flat["beta"], flat["delta"], ".", ms=3)
left.plot(*([np.min(flat["beta"]), np.max(flat["beta"])],) * 2, color="0.7", lw=1)
left.set(xlabel="log10 of beta [1/h]", ylabel="log10 of delta [1/h]")
right.plot(hours, fluorescence, "k.", ms=3)
curves = jax.vmap(curve, (0, None))(flat, jnp.asarray(hours))
right.plot(hours, np.asarray(curves[:40]).T, color="C0", lw=0.3)
right.set(xlabel="time [h]", ylabel="fluorescence")
plt.show()
