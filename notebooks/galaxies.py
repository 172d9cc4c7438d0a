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
# # Velocities of 82 galaxies
#
# Galaxies near the Corona Borealis move away from us in clusters of about one velocity. A mixture of three normal
# distributions describes that, and its posterior has six modes: the labels of the components may be permuted. The model
# is written in NumPyro, and then in PyMC. One call draws from all six modes, with the right weights.

# %%
import warnings

# What other packages say when they are imported.
for message in ("\nArviZ is undergoing", "IProgress not found", "PyTensor could not link to a BLAS"):
    warnings.filterwarnings("ignore", message=message)

import arviz as az
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
import pymc as pm

import vhmc_jax as vj

jax.config.update("jax_enable_x64", True)

# %% [markdown]
# Velocities in 1,000 km/s, from Postman, Huchra & Geller (1986) by way of Roeder (1990). Sources differ in the 78th
# value: it is 26,690 km/s here, as in R's package MASS, and 26,960 elsewhere.

# %%
# fmt: off
velocities = np.array([
    9172, 9350, 9483, 9558, 9775, 10227, 10406, 16084, 16170, 18419, 18552, 18600, 18927, 19052, 19070, 19330,
    19343, 19349, 19440, 19473, 19529, 19541, 19547, 19663, 19846, 19856, 19863, 19914, 19918, 19973, 19989,
    20166, 20175, 20179, 20196, 20215, 20221, 20415, 20629, 20795, 20821, 20846, 20875, 20986, 21137, 21492,
    21701, 21814, 21921, 21960, 22185, 22209, 22242, 22249, 22314, 22374, 22495, 22746, 22747, 22888, 22914,
    23206, 23241, 23263, 23484, 23538, 23542, 23666, 23706, 23711, 24129, 24285, 24289, 24366, 24717, 24990,
    25633, 26690, 26995, 32065, 32789, 34279,
]) / 1000
# fmt: on
len(velocities)

# %% [markdown]
# ## The model


# %%
def model(y):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("component", 3):
        mean = numpyro.sample("mean", dist.Normal(20.0, 10.0))
    scale = numpyro.sample("scale", dist.LogNormal(0.5, 0.5))
    with numpyro.plate("galaxy", len(y)):
        numpyro.sample("velocity", dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(mean, scale)), obs=y)


# %% [markdown]
# ## Three lines
#
# The prior says where to look. Parameters come back named and constrained. The report says where each mode lies.

# %%
problem = vj.from_numpyro(model, velocities)
result = vj.sample(jax.random.key(0), problem, progress=False)
data = result.to_arviz(num_chains=4)

# %%
print(result.modes)
assert len(result.modes.weights) == 6
assert np.all(np.abs(result.modes.weights - 1 / 6) < 4 * result.modes.errors)

# %%
result

# %% [markdown]
# `data` is ArviZ's own structure, with log likelihood and observed data. The means of `mean[0]`, `mean[1]` and
# `mean[2]` agree, as they must: each component is each cluster for a third of the time.

# %%
print(vj.diagnostics.summary(result.draws))

# %% [markdown]
# ## The same in PyMC
#
# A model of PyMC goes in as it is, too. Fewer draws will do here.

# %%
with pm.Model(coords={"component": ["a", "b", "c"]}) as pymc_model:
    weights = pm.Dirichlet("weights", np.ones(3), dims="component")
    mean = pm.Normal("mean", 20.0, 10.0, dims="component")
    scale = pm.LogNormal("scale", 0.5, 0.5)
    pm.NormalMixture("velocity", weights, mean, scale, observed=velocities)

# %%
problem = vj.from_pymc(pymc_model)
same = vj.sample(jax.random.key(2), problem, num_chains=32, num_samples=250, progress=False)
az.summary(same.to_arviz(num_chains=4), kind="stats")

# %%
print(same.modes)
assert len(same.modes.weights) == 6
assert np.all(np.abs(same.modes.weights - 1 / 6) < 4 * same.modes.errors)

# %% [markdown]
# ## One labelling
#
# To speak of *the* slow cluster, bring all draws to one labelling.

# %%
labelled = vj.diagnostics.relabel(result.draws, {"mean": 0, "weights": 0})
print(vj.diagnostics.summary(labelled))

# %% [markdown]
# ## The same by another way, and by NUTS
#
# Within one labelling the posterior has one mode, so that NUTS of NumPyro is right there. Four of its chains, each from
# a start of its own, do not leave the labelling that they come to first: R-hat sees it, and the weights of the modes
# are those of the starts. The means within one labelling agree with those above.

# %%
kernel = numpyro.infer.NUTS(model)
nuts = numpyro.infer.MCMC(
    kernel, num_warmup=500, num_samples=1000, num_chains=4, chain_method="vectorized", progress_bar=False
)
nuts.run(jax.random.key(1), jnp.asarray(velocities))
draws = nuts.get_samples(group_by_chain=True)
order = np.argsort(np.asarray(draws["mean"]), axis=-1)
print("labellings that each chain saw:", [len(np.unique(chain, axis=0)) for chain in order])
print("R-hat of mean, NUTS:", np.round(vj.diagnostics.rhat(draws)["mean"], 2))
print("R-hat of mean, here:", np.round(vj.diagnostics.rhat(result.draws)["mean"], 3))

# %%
ordered = vj.diagnostics.relabel(draws, {"mean": 0, "weights": 0})
ours, theirs = (np.mean(labels["mean"], axis=(0, 1)) for labels in (labelled, ordered))
errors = [vj.diagnostics.mcse(labels)["mean"] for labels in (labelled, ordered)]
z = (ours - theirs) / np.hypot(*errors)
print("means here:", np.round(ours, 3), " by NUTS:", np.round(theirs, 3))
print("difference in standard errors:", np.round(z, 1))
assert np.all(np.abs(z) < 4.5)

# %% [markdown]
# ## A picture

# %%
grid = np.linspace(7, 37, 400)
numbers = np.random.default_rng(0).integers(0, labelled["scale"].size, 200)
weights, means, scales = (
    np.asarray(labelled[name]).reshape(labelled["scale"].size, -1)[numbers] for name in ("weights", "mean", "scale")
)
heights = np.exp(-0.5 * ((grid - means[..., None]) / scales[..., None]) ** 2) / (scales[..., None] * np.sqrt(2 * np.pi))
densities = np.sum(weights[..., None] * heights, axis=1)

figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.hist(velocities, bins=40, density=True, color="0.8")
axes.plot(grid, densities.mean(0), color="C0")
axes.fill_between(grid, *np.percentile(densities, [2.5, 97.5], axis=0), color="C0", alpha=0.3)
axes.set(xlabel="velocity [1,000 km/s]", ylabel="density")
plt.show()
