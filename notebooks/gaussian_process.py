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
# # Two explanations by one Gaussian process
#
# Nineteen points rise and fall, and wiggle about that. A Gaussian process may follow every wiggle, with a short length
# scale and little noise, or take the wiggles for noise around a smooth curve. The posterior of its two
# hyper-parameters has a mode for each. The data are made up; two parameters let quadrature tell the truth.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist

import vhmc_jax as vj

jax.config.update("jax_enable_x64", True)

# %%
# fmt: off
x = np.array([
    -4.82, -4.46, -3.94, -3.39, -2.61, -2.13, -1.64, -0.95, -0.65, -0.09,
    0.52, 1.04, 1.60, 2.31, 2.62, 3.40, 3.86, 4.46, 5.12,
])
y = np.array([
    -0.24, -0.69, -0.81, -0.60, -1.20, -1.17, -0.63, -0.45, -0.57, -0.05,
    0.58, 0.56, 0.68, 1.30, 1.30, 0.59, 0.64, 0.61, -0.20,
])
# fmt: on

# %% [markdown]
# ## The model


# %%
def model(x, y):
    length = numpyro.sample("length", dist.LogNormal(0.0, 1.5))
    noise = numpyro.sample("noise", dist.LogNormal(-1.0, 1.0))
    covariance = jnp.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + noise**2 * jnp.eye(len(x))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(x)), covariance), obs=y)


# %%
problem = vj.from_numpyro(model, x, y)
result = vj.sample(jax.random.key(0), problem, progress=False)
result

# %% [markdown]
# ## The truth by quadrature
#
# The posterior of (log length, log noise) on a grid, wide and fine enough that sums are integrals.

# %%
log_length, log_noise = np.linspace(-6.0, 6.0, 301), np.linspace(-6.0, 3.0, 301)
cell = (log_length[1] - log_length[0]) * (log_noise[1] - log_noise[0])
logdensity = jax.jit(jax.vmap(lambda a, b: problem.logdensity_fn({"length": a, "noise": b})))
heights = np.asarray(logdensity(*(axis.ravel() for axis in np.meshgrid(log_length, log_noise, indexing="ij"))))
log_evidence = np.log(np.sum(np.exp(heights - heights.max())) * cell) + heights.max()
density = np.exp(heights - log_evidence).reshape(len(log_length), len(log_noise))
is_short = log_length < np.log(1.5)
means = {
    "length below 1.5": density[is_short].sum() * cell,
    "log length": density.sum(1) @ log_length * cell,
    "log noise": density.sum(0) @ log_noise * cell,
}


# %%
def compared(draws):
    """Means over draws beside those by quadrature, with their difference in standard errors."""
    values = {
        "length below 1.5": np.asarray(draws["length"] < 1.5, float),
        "log length": np.log(draws["length"]),
        "log noise": np.log(draws["noise"]),
    }
    print(f"{'':18}{'truth':>9}{'mean':>9}{'error':>9}{'z':>7}{'R-hat':>8}")
    scores = []
    for name, value in values.items():
        mean, error, rhat = np.mean(value), vj.diagnostics.mcse(value), vj.diagnostics.rhat(value)
        scores.append((mean - means[name]) / error)
        print(f"{name:18}{means[name]:9.4f}{mean:9.4f}{error:9.4f}{scores[-1]:7.1f}{rhat:8.3f}")
    return scores


scores = compared(result.draws)
print(f"log evidence {result.log_evidence:.4f} ± {result.log_evidence_error:.4f}, by quadrature {log_evidence:.4f}")
assert np.all(np.abs(scores) < 4.5)
assert abs(result.log_evidence - log_evidence) < 4.5 * result.log_evidence_error

# %% [markdown]
# ## NUTS
#
# Four chains of NumPyro's NUTS. They cross the pass between the modes seldom.

# %%
nuts = numpyro.infer.MCMC(
    numpyro.infer.NUTS(model),
    num_warmup=500,
    num_samples=1000,
    num_chains=4,
    chain_method="vectorized",
    progress_bar=False,
)
nuts.run(jax.random.key(1), jnp.asarray(x), jnp.asarray(y))
draws = nuts.get_samples(group_by_chain=True)
compared(draws)
print("share of length below 1.5 in each chain:", np.round(np.mean(draws["length"] < 1.5, axis=1), 2))

# %% [markdown]
# ## A picture
#
# Left: the posterior by quadrature, and draws. Right: the data, with the mean of the process given the mean
# hyper-parameters of each mode.

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.contourf(log_length, log_noise, density.T, levels=12, cmap="Blues")
shown = np.random.default_rng(0).integers(0, result.draws["length"].size, 400)
flat = {name: np.log(np.ravel(result.draws[name]))[shown] for name in ("length", "noise")}
left.plot(flat["length"], flat["noise"], ".", ms=2, color="C1")
left.set(xlim=(-2.5, 3), ylim=(-5, 0.5), xlabel="log length", ylabel="log noise")
right.plot(x, y, "k.")
grid = np.linspace(-5.5, 5.5, 300)
for mode, (length, noise) in enumerate(result.modes.locations.means):
    covariance = np.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + noise**2 * np.eye(len(x))
    curve = np.exp(-0.5 * ((grid[:, None] - x) / length) ** 2) @ np.linalg.solve(covariance, y)
    right.plot(grid, curve, label=f"length {length:.2f}, noise {noise:.2f}, weight {result.modes.weights[mode]:.2f}")
right.set(xlabel="x", ylabel="y", ylim=(-1.8, 2.6))
right.legend()
plt.show()
