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
# # Quick start
#
# A log density of your own, draws in one call, whether to trust them, and the parts by hand.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj

# %% [markdown]
# ## A log density
#
# Any function of a pytree of floating arrays that JAX can differentiate, up to a constant. This one is a regression
# whose slope is known up to its sign: `y = |slope| x + noise`. Its posterior has two modes. A prior prefers positive
# slopes, three to one, so that their weights differ.

# %%
rng = np.random.default_rng(0)
x = rng.uniform(0.0, 3.0, 40)
y = 2.0 * x + rng.normal(0.0, 0.7, 40)


def logdensity(position):
    slope, log_noise = position["slope"], position["log_noise"]
    prior = jnp.where(slope > 0, jnp.log(0.75), jnp.log(0.25)) - 0.5 * (slope / 5.0) ** 2 - 0.5 * log_noise**2
    residuals = (y - jnp.abs(slope) * x) / jnp.exp(log_noise)
    return prior - 0.5 * jnp.sum(residuals**2) - len(y) * log_noise


# %% [markdown]
# ## Draws
#
# The search for modes needs to know where to look: a box, your own sampler of starts, or the starts themselves.

# %%
region = vj.box(
    {"slope": jnp.array(-6.0), "log_noise": jnp.array(-2.0)}, {"slope": jnp.array(6.0), "log_noise": jnp.array(2.0)}
)
result = vj.sample(jax.random.key(0), logdensity, region, progress=False)
result

# %% [markdown]
# The weights are those of the prior, 0.75 and 0.25, up to the errors in the table: the likelihood is the same in both
# modes. `result.draws` has the structure of a position, with axes (chain, draw):

# %%
jax.tree.map(jnp.shape, result.draws)

# %% [markdown]
# ## Was every mode visited?

# %%
figure = result.plot()

# %% [markdown]
# `result.to_html("run.html")` writes the same as one page, with tables. What may be wrong is said in plain sentences,
# and nothing here is:

# %%
result.warnings

# %% [markdown]
# ## ArviZ

# %%
data = result.to_arviz()
data.posterior

# %% [markdown]
# ## More draws
#
# Everything that was fitted is frozen: a later call produces with it at once.

# %%
more = vj.sample(jax.random.key(1), logdensity, frozen=result.frozen, progress=False)
[f"{phase.name}: {phase.seconds:.2f} s, of which compiling {phase.compile_seconds:.2f} s" for phase in more.phases]

# %% [markdown]
# ## By hand
#
# A kernel is a pair of pure functions. `scan` runs a chain, `vmap` many of them; there is nothing else to it.

# %%
kernel = vj.hmc(logdensity, step_size=0.08, num_integration_steps=(5, 10))
starts = {"slope": jnp.full(16, 2.0), "log_noise": jnp.full(16, -0.3)}
states = jax.vmap(kernel.init)(starts)


@jax.jit
def run(rng_key, states):
    def one_iteration(states, keys):
        states, infos = jax.vmap(kernel.step)(keys, states)
        return states, (states.position["slope"], infos.acceptance_rate)

    return jax.lax.scan(one_iteration, states, jax.random.split(rng_key, (1000, 16)))


_, (slopes, acceptance) = run(jax.random.key(2), states)
print(f"acceptance {acceptance.mean():.2f}; share of draws with a positive slope {np.mean(slopes > 0):.3f}, truth 0.75")

# %% [markdown]
# HMC started in one mode stays there. The frozen guide of `sample` carries any local kernel between the modes; here
# HMC in the place of Langevin HMC:

# %%
frozen = result.frozen
local = vj.hmc(
    logdensity,
    step_size=frozen.step_size,
    num_integration_steps=frozen.num_integration_steps,
    inverse_mass_matrix=frozen.inverse_mass_matrix,
)
kernel = vj.with_jumps(local, frozen.guide, jump_probability=0.2, log_envelope=frozen.log_envelope)
chains = vj.run_chains(jax.random.key(3), kernel, starts, num_samples=2000)
print(vj.diagnostics.mode_report(chains.draws, frozen.guide, mode_of=frozen.guide_report.component_modes.tolist()))
