"""Guides of other libraries: flowjax, distrax, TensorFlow Probability, as they are; and ``sample`` with the user's."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.guide import as_guide, host_of
from vhmc_jax.pipeline.frozen import Frozen

with warnings.catch_warnings():  # those of other libraries, when they are imported
    warnings.simplefilter("ignore")
    import distrax
    import flowjax.bijections
    import flowjax.distributions
    import flowjax.flows
    from tensorflow_probability.substrates import jax as tfp

KEY = jax.random.key(3)
MEAN, SCALE = np.array([1.0, -2.0]), np.array([0.5, 2.0])


@pytest.fixture(autouse=True)
def _promotion():
    """Other libraries mix types."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def flow():
    """A flow whose bijection has functions among its leaves."""
    base = flowjax.distributions.Normal(MEAN, SCALE)
    coupling = flowjax.bijections.Coupling(
        KEY, transformer=flowjax.bijections.Affine(), untransformed_dim=1, dim=2, nn_width=4, nn_depth=1
    )
    return flowjax.distributions.Transformed(base, coupling)


GUIDES = {
    "flowjax": lambda: flowjax.distributions.Normal(MEAN, SCALE),
    "distrax": lambda: distrax.MultivariateNormalDiag(jnp.asarray(MEAN), jnp.asarray(SCALE)),
    "tfp": lambda: tfp.distributions.MultivariateNormalDiag(jnp.asarray(MEAN), jnp.asarray(SCALE)),
}


@pytest.mark.parametrize("name", GUIDES)
def test_distributions_of_other_libraries_are_guides(name):
    guide = as_guide(GUIDES[name]())
    host = host_of(guide)
    draws = host.sample(np.random.default_rng(0), 4000)
    assert draws.shape == (4000, 2)
    np.testing.assert_allclose(draws.mean(axis=0), MEAN, atol=5 * SCALE.max() / np.sqrt(4000))
    expected = -0.5 * np.sum(((draws - MEAN) / SCALE) ** 2, axis=1) - np.log(2 * np.pi)
    np.testing.assert_allclose(host.at(draws).log_prob, expected, rtol=1e-6, atol=1e-9)


def test_a_flow_with_functions_among_its_leaves_jumps():
    guide = flow()
    density = guide.log_prob
    kernel = vj.jump(density, guide, log_envelope=0.0, num_tries=1)
    chains = vj.run_chains(KEY, kernel, jnp.asarray(MEAN) + jnp.zeros((8, 2)), 50)
    assert bool(chains.infos.is_accepted.all()), "the guide is the target"
    assert np.isclose(vj.estimate_log_envelope(KEY, density, guide, 1, num_draws=100), 0.0, atol=1e-6)
    evidence = vj.diagnostics.log_evidence(KEY, density, guide, chains.draws)
    assert abs(evidence.log_evidence) < 1e-6


def test_other_parameters_of_the_same_guide_compile_nothing():
    value = jax.jit(lambda guide, x: guide.log_prob(x))
    values = [value(as_guide(flowjax.distributions.Normal(mean, SCALE)), MEAN) for mean in (MEAN, MEAN + 1)]
    assert values[0] > values[1]
    assert value._cache_size() == 1


def test_what_is_no_guide_is_named():
    with pytest.raises(TypeError, match=r"guide must have the methods sample\(rng_key\) and log_prob\(x\), got int"):
        as_guide(3)


TARGET = vj.targets.far_pair(0.7)
REGION = vj.box(jnp.full(2, -10.0), jnp.full(2, 10.0))
SETTINGS = {"num_chains": 32, "num_samples": 300, "progress": False}


def mixture_of_distrax(means, weights=(0.5, 0.5)):
    parts = distrax.MultivariateNormalDiag(jnp.asarray(means), 1.3 * jnp.ones((len(weights), 2)))
    return distrax.MixtureSameFamily(distrax.Categorical(probs=jnp.asarray(weights)), parts)


@pytest.mark.slow
def test_sample_takes_a_guide_of_the_users():
    result = vj.sample(KEY, TARGET.logdensity, REGION, guide=mixture_of_distrax(TARGET.means), **SETTINGS)
    weights = np.sort(result.modes.weights)
    assert np.all(np.abs(weights - [0.3, 0.7]) < 4 * result.modes.errors)
    assert abs(result.log_evidence - TARGET.log_normalizer) < 4 * result.log_evidence_error
    assert result.is_trusted
    assert [phase.name for phase in result.phases] == ["discover", "fit", "tune", "produce", "judge"]
    report = result.frozen.guide_report
    accepted = np.sum(result.infos.jump_accepted) / np.sum(result.infos.is_jump)
    assert abs(accepted - report.expected_acceptance) < 0.03


@pytest.mark.slow
def test_a_guide_that_misses_a_mode_is_not_trusted():
    guide = vj.GaussianMixture(jnp.zeros(1), jnp.asarray(TARGET.means[:1]), 1.2 * jnp.eye(2)[None])
    with pytest.warns(vj.TrustWarning, match="of a population of particles .* lies where the guide has hardly any"):
        result = vj.sample(KEY, TARGET.logdensity, REGION, guide=guide, **SETTINGS)
    assert not result.is_trusted


def test_what_does_not_fit_is_said_before_the_search(tmp_path):
    def sample(guide, **options):
        vj.sample(KEY, TARGET.logdensity, REGION, guide=guide, progress=False, **options)

    guide = mixture_of_distrax(TARGET.means)
    with pytest.raises(ValueError, match=r"guide.sample must return a flat vector like the position's, float64\[2\]"):
        sample(distrax.MultivariateNormalDiag(jnp.zeros(3), jnp.ones(3)))
    with pytest.raises(TypeError, match="guide must have the methods sample"):
        sample("guide")
    with pytest.raises(ValueError, match="a pilot run is for fitting the guide: leave out num_pilot, or guide"):
        sample(guide, num_pilot=10)
    with pytest.raises(TypeError, match="store holds guides of this package alone"):
        sample(guide, store=tmp_path)
    frozen = Frozen(**dict.fromkeys(Frozen._fields))
    with pytest.raises(ValueError, match="frozen has been fitted already: leave out guide, or frozen"):
        vj.sample(KEY, TARGET.logdensity, frozen=frozen, guide=guide)
