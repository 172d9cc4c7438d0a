"""Symmetries of named parameters: which axes they are, and that what they do to positions is exact."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

import vhmc_jax as vj
from vhmc_jax.models.named_symmetries import symmetries_of
from vhmc_jax.pipeline.fold import fold

KEY = jax.random.key(23)
MEANS = jnp.array([-3.0, 0.0, 3.0])
CONCENTRATIONS = jnp.array([2.0, 5.0, 9.0])
ORDERS = jnp.array([[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]])
BY_SITE = vj.permutations({"mean": 0, "weights": 0})


def labelled():
    """Three components in all orders: means around −3, 0 and 3, weights as of one Dirichlet distribution.

    The evidence is 2, the density of the prior of the weights.
    """
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("component", 3):
        mean = numpyro.sample("mean", dist.ImproperUniform(dist.constraints.real, (), ()))
    numpyro.sample("noise", dist.Normal(0.0, 1.0))
    numpyro.deterministic("greatest", jnp.max(mean))
    terms = dist.Normal(MEANS[ORDERS], 0.5).to_event(1).log_prob(mean)
    terms += dist.Dirichlet(CONCENTRATIONS[ORDERS]).log_prob(weights)
    numpyro.factor("density", jax.nn.logsumexp(terms) - jnp.log(6.0))


@pytest.fixture(scope="module")
def problem():
    return vj.from_numpyro(labelled)


@pytest.fixture(scope="module")
def positions(problem):
    return jax.jit(jax.vmap(problem.region))(jax.random.split(KEY, 64))


def axes_of(problem, symmetries, positions):
    """The axes of each reading by name."""
    template = {name: jnp.zeros(np.shape(value)[1:]) for name, value in draws_of(problem, positions).items()}
    found = []
    for reading in symmetries_of(problem, symmetries, positions)[0]:
        labels = reading.sets[0].labels
        names = reading.sets[0].values.parameters
        of_leaves = labels.axes_of_leaves({name: template[name] for name in names})
        found.append({name: axes for name, axes in zip(sorted(names), of_leaves, strict=True) if axes})
    return found


def draws_of(problem, positions):
    return jax.jit(jax.vmap(problem.constrain))(positions)


def test_the_density_is_the_same_at_images_that_are_no_permutation_of_coordinates(problem, positions):
    reading = symmetries_of(problem, BY_SITE, positions)[0][0]
    _, (_, exchange) = reading.generators(jax.tree.map(lambda leaf: leaf[0], positions))

    @jax.jit
    @jax.vmap
    def images(position):
        image = exchange(position)
        values = problem.logdensity_fn(position), problem.logdensity_fn(image.position) + image.log_det
        return values, image.position["weights"], problem.constrain(image.position)["weights"]

    (here, there), coordinates, weights = images(positions)
    np.testing.assert_allclose(there, here, rtol=1e-8)
    np.testing.assert_allclose(weights, draws_of(problem, positions)["weights"][:, jnp.array([0, 2, 1])], rtol=1e-8)
    assert not np.allclose(np.sort(coordinates, axis=1), np.sort(positions["weights"], axis=1))


@pytest.mark.statistical
def test_folded_and_unfolded_draws_of_the_prior_are_draws_of_the_prior():
    def model():
        numpyro.sample("weights", dist.Dirichlet(jnp.full(3, 0.7)))
        numpyro.sample("mean", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
        numpyro.factor("none", 0.0)

    problem = vj.from_numpyro(model)
    folded = fold(KEY, problem, problem.region, None, BY_SITE)
    draws = jax.jit(jax.vmap(problem.region))(jax.random.split(KEY, 8000))
    inside = jax.jit(jax.vmap(folded.domain.representative))(draws)
    again = folded.unfold(jax.tree.map(lambda leaf: leaf.reshape(20, -1, *leaf.shape[1:]), inside))
    others = jax.jit(jax.vmap(problem.region))(jax.random.split(jax.random.key(1), 8000))
    assert np.all(np.diff(inside["mean"], axis=-1) >= 0)
    for stick in range(2):
        expected = others["weights"][:, stick]
        assert stats.ks_2samp(np.ravel(again["weights"][..., stick]), expected).pvalue > 1e-4
        # The control: stick-breaking coordinates that are exchanged themselves are something else.
        assert stats.ks_2samp(np.ravel(draws["weights"][..., 1 - stick]), expected).pvalue < 1e-4


@pytest.mark.slow
def test_the_known_answer(problem):
    settings = {"num_chains": 32, "num_samples": 400, "progress": False}
    result = vj.sample(KEY, problem, symmetries=vj.permutations("component"), **settings)
    assert result.is_trusted, result.warnings
    assert len(result.modes.weights) == 1
    assert abs(result.log_evidence - np.log(2.0)) < 4 * result.log_evidence_error < 0.1
    assert set(result.draws) == {"weights", "mean", "noise", "greatest"}
    errors = vj.diagnostics.mcse(result.draws)
    np.testing.assert_array_less(np.abs(np.mean(result.draws["weights"], axis=(0, 1)) - 1 / 3), 4 * errors["weights"])
    labels = vj.diagnostics.relabel(result.draws, {"mean": 0, "weights": 0}, by="mean")
    errors = vj.diagnostics.mcse(labels)
    expected = {"mean": MEANS, "weights": CONCENTRATIONS / CONCENTRATIONS.sum()}
    for name in expected:
        difference = np.abs(np.mean(labels[name], axis=(0, 1)) - expected[name])
        np.testing.assert_array_less(difference, 4 * errors[name] + 1e-4)
    np.testing.assert_allclose(result.draws["greatest"], np.max(result.draws["mean"], axis=-1), rtol=1e-6)


def test_readings(problem, positions):
    by_site = {"mean": (0,), "weights": (0,)}
    assert axes_of(problem, BY_SITE, positions) == [by_site]
    assert axes_of(problem, vj.permutations({"mean": "component"}), positions) == [{"mean": (0,)}]
    assert axes_of(problem, vj.permutations("component"), positions) == [{"mean": (0,)}, by_site]
    # What the means tell apart the weights do not: they come last.
    reading = symmetries_of(problem, vj.permutations("component"), positions)[0][1]
    like = reading.sets[0].values.like(jax.tree.map(lambda leaf: leaf[0], positions))
    assert reading.sets[0].labels.leaves_as_written(like)[0] == sorted(like).index("mean")
    plain = vj.Problem(logdensity_fn=problem.logdensity_fn)
    assert symmetries_of(plain, BY_SITE, positions) == ([BY_SITE], positions)


@pytest.mark.slow
def test_maps_are_those_of_the_parameters(problem):
    def turned(values):
        return {name: value[::-1] if value.ndim else value for name, value in values.items()}

    assert fold(KEY, problem, problem.region, None, turned).num_images == 2
    with pytest.raises(ValueError, match=r"symmetries must leave the density as it is, and maps\[0\] does not"):
        fold(KEY, problem, problem.region, None, lambda values: values | {"mean": 1.0 - values["mean"]})


def test_what_is_no_symmetry_is_named(problem):
    def message(symmetries, model=None):
        chosen = problem if model is None else vj.from_numpyro(model)
        with pytest.raises(ValueError) as error:  # noqa: PT011
            vj.sample(KEY, chosen, symmetries=symmetries, progress=False)
        return str(error.value)

    def ordered():
        numpyro.sample("mean", dist.TransformedDistribution(dist.Normal(jnp.zeros(3), 1.0).to_event(1), ORDERED))
        numpyro.factor("none", 0.0)

    def bounded():
        numpyro.sample("mean", dist.Uniform(jnp.arange(3.0), jnp.arange(3.0) + 1.0))
        numpyro.factor("none", 0.0)

    mean = vj.permutations({"mean": 0})
    assert "must name parameters, which are ['mean', 'noise', 'weights'], got ['gap']" in message(
        vj.permutations({"gap": 0})
    )
    assert "got ['greatest']" in message(vj.permutations({"greatest": 0}))
    assert "the dimension 'clusters', which no parameter has: there are ['component']" in message(
        vj.permutations("clusters")
    )
    assert "'noise' must have the dimension 'component', got []" in message(vj.permutations({"noise": "component"}))
    assert "the exchange of labels 0 and 1 does not: the log density is" in message(mean)
    outside = "the exchange of labels 0 and 1 does not: it takes 'mean' to ["
    assert outside in message(mean, ordered)
    assert "An ordered parameter has its labels in order" in message(mean, ordered)
    assert outside in message(mean, bounded)
    with pytest.raises(ValueError, match="axes must be numbers but for a problem with named dimensions, got 'x'"):
        vj.sample(KEY, lambda x: -x @ x, vj.box([-1.0] * 2, [1.0] * 2), symmetries=vj.permutations("x"))
    wrong = vj.Problem(
        logdensity_fn=lambda x: -x @ x,
        region=vj.box([-1.0] * 2, [1.0] * 2),
        constrain=lambda x: {"x": x},
        unconstrain=lambda values: values["x"] + 1.0,
    )
    with pytest.raises(ValueError, match="unconstrain must undo constrain, got another position at all of 64"):
        vj.sample(KEY, wrong, symmetries=vj.permutations({"x": 0}))


ORDERED = dist.transforms.OrderedTransform()
