"""A log density of constrained parameters as a problem, from its Jacobian to named draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from counting import compiled_during
from jax.tree_util import Partial

import vhmc_jax as vj

KEY = jax.random.key(7)
CONSTRAINTS = {"rho": vj.interval(-1, 1), "scale": vj.positive, "weights": vj.simplex}
SHAPES = {"weights": 3}


def logdensity(rate, parameters):
    """Gamma(2, rate) for the scale, Dirichlet(2, 3, 4) for the weights, two modes for ρ: 0.7 near −½, 0.3 near ½."""
    rho, scale, weights = parameters["rho"], parameters["scale"], parameters["weights"]
    modes = jnp.array([-0.5, 0.5])
    heights = jnp.log(jnp.array([0.7, 0.3])) - 0.5 * ((rho - modes) / 0.05) ** 2
    powers = jnp.array([1.0, 2.0, 3.0])
    return jax.nn.logsumexp(heights) + jnp.log(scale) - rate * scale + jnp.sum(powers * jnp.log(weights))


def problem_at(rate):
    return vj.constrain(Partial(logdensity, jnp.asarray(rate)), CONSTRAINTS, SHAPES)


@pytest.fixture(scope="module")
def result():
    return vj.sample(KEY, problem_at(4.0), num_chains=32, num_samples=500, progress=False)


@pytest.mark.slow
def test_draws_are_named_constrained_and_right(result):
    draws, errors = result.draws, vj.diagnostics.mcse(result.draws)
    assert {name: values.shape[2:] for name, values in draws.items()} == {"rho": (), "scale": (), "weights": (3,)}
    truth = {"rho": -0.2, "scale": 0.5, "weights": np.array([2, 3, 4]) / 9}
    for name, value in truth.items():
        z = (np.mean(draws[name], axis=(0, 1)) - value) / errors[name]
        assert np.all(np.abs(z) < 4.5), f"{name}: z = {z}"
    assert result.unconstrained["weights"].shape == (32, 500, 2)
    again = jax.jit(jax.vmap(jax.vmap(result.problem.constrain)))(result.unconstrained)
    np.testing.assert_allclose(again["rho"], draws["rho"])


@pytest.mark.slow
def test_report_says_where_modes_lie(result):
    heavy = int(np.argmax(result.modes.weights))
    found = result.modes.locations
    assert found.names == ("rho", "scale", "weights[0]", "weights[1]", "weights[2]")
    np.testing.assert_allclose(found.means[heavy, :2], [-0.5, 0.5], atol=0.02)
    np.testing.assert_allclose(found.sds[heavy, 0], 0.05, rtol=0.1)
    assert "Parameters in each mode" in str(result)
    html = result._repr_html_()
    assert "<th>weights[2]</th>" in html
    assert html.count("<tr>") == 3


@pytest.mark.slow
def test_other_data_compile_nothing(result):
    again, compiled = compiled_during(vj.sample, KEY, problem_at(4.5), num_chains=32, num_samples=500, progress=False)
    assert compiled == 0
    assert again.draws["scale"].mean() < result.draws["scale"].mean()


@pytest.mark.slow
def test_frozen_produces_more_of_a_problem(result):
    again = vj.sample(
        jax.random.key(1), result.problem, frozen=result.frozen, num_chains=32, num_samples=500, progress=False
    )
    assert again.draws["weights"].shape == (32, 500, 3)


@pytest.mark.slow
def test_arviz_has_modes_and_joined_chains(result):
    data = result.to_arviz(num_chains=4, dims={"weights": ["group"]}, coords={"group": ["a", "b", "c"]})
    assert data["posterior"]["weights"].shape == (4, 4000, 3)
    assert list(data["posterior"].coords["group"].values) == ["a", "b", "c"]
    np.testing.assert_array_equal(data["sample_stats"]["mode"].values.ravel(), result.modes.labels.ravel())
    attributes = data.attrs
    np.testing.assert_allclose(attributes["mode_weights"], result.modes.weights)
    assert len(attributes["mode_weights_by_bridge"]) == 2
    assert attributes["warnings"] == ""


def test_density_has_the_jacobian():
    problem = problem_at(4.0)
    position = {"rho": jnp.array(0.3), "scale": jnp.array(-1.0), "weights": jnp.array([0.2, -0.4])}
    log_dets = [CONSTRAINTS[name].forward(position[name])[1] for name in position]
    expected = logdensity(4.0, problem.constrain(position)) + sum(log_dets)
    np.testing.assert_allclose(problem.logdensity_fn(position), expected)
    jax.tree.map(np.testing.assert_allclose, problem.unconstrain(problem.constrain(position)), position)


def test_region_in_the_units_of_the_parameters():
    keys = jax.random.split(KEY, 100)
    low, high = {"scale": jnp.array(2.0)}, {"scale": jnp.array(3.0)}
    box = vj.constrain(Partial(logdensity, jnp.array(1.0)), CONSTRAINTS, SHAPES, region=vj.box(low, high))
    values = jax.jit(jax.vmap(lambda key: box.constrain(box.region(key))))(keys)
    assert jnp.all((values["scale"] > 2) & (values["scale"] < 3))
    assert jnp.all(jnp.abs(values["rho"]) < 1)
    starts = {name: values[name][:5] for name in values}
    given = vj.constrain(Partial(logdensity, jnp.array(1.0)), CONSTRAINTS, SHAPES, region=starts)
    np.testing.assert_allclose(jax.jit(jax.vmap(given.constrain))(given.region)["scale"], starts["scale"])


def test_bad_arguments_are_named():
    def ok(parameters):
        return -parameters["scale"]

    with pytest.raises(TypeError, match="constraints must be a dict"):
        vj.constrain(ok, [vj.positive])
    with pytest.raises(TypeError, match=r"constraints\['scale'\] must be a constraint such as vj.positive"):
        vj.constrain(ok, {"scale": "positive"})
    with pytest.raises(TypeError, match=r"such as vj.positive or vj.interval"):
        vj.constrain(ok, {"scale": vj.interval})
    with pytest.raises(ValueError, match=r"shapes must name parameters of constraints, \['scale'\], got \['mu'\]"):
        vj.constrain(ok, {"scale": vj.positive}, {"mu": 2})
    with pytest.raises(ValueError, match="parameter w: a simplex needs at least two entries"):
        vj.constrain(ok, {"scale": vj.positive, "w": vj.simplex})
    with pytest.raises(ValueError, match="parameter scale must have the shape of its bounds"):
        vj.constrain(ok, {"scale": vj.interval(np.zeros(2), np.ones(2))})
    with pytest.raises(ValueError, match="must return one real number"):
        vj.constrain(ok, {"scale": vj.positive}, {"scale": 3})
    with pytest.raises(ValueError, match=r"region must be of parameters by name, some of \['scale'\]"):
        vj.constrain(ok, {"scale": vj.positive}, region=vj.box(jnp.zeros(2), jnp.ones(2)))
    with pytest.raises(ValueError, match=r"region of parameter scale must have shape \(\), got \(2,\)"):
        vj.constrain(ok, {"scale": vj.positive}, region=vj.box({"scale": jnp.zeros(2)}, {"scale": jnp.ones(2)}))
    with pytest.raises(ValueError, match=r"starts must have all parameters, got none for \['rho'\]"):
        vj.constrain(ok, {"rho": vj.real, "scale": vj.positive}, region={"scale": jnp.ones(4)})
