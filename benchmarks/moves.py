"""A picture of the moves: equipotential transformations and Langevin trajectories on level curves.

python benchmarks/moves.py
"""

import argparse
import pathlib

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from vhmc_jax.density import FlatDensity
from vhmc_jax.dynamics.equipotential import Solver, transform
from vhmc_jax.dynamics.kinetic import gaussian_kinetic
from vhmc_jax.dynamics.langevin import dlhmc

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.55"


def banana(x):
    """A Gaussian bent along a parabola."""
    return -0.5 * (x[0] / 2) ** 2 - 0.5 * ((x[1] - 0.5 * x[0] ** 2 + 1.5) / 0.6) ** 2


def transformations(logdensity, start, rng_key, count):
    """Points of a sequence of equipotential transformations."""
    density, solver = FlatDensity(logdensity, lambda x: x), Solver(10, None, "deflated_newton")
    points, x = [start], start
    for key in jax.random.split(rng_key, count):
        x = transform(density, solver, x, density.value(x), jax.random.normal(key, (2,))).position
        points.append(x)
    return np.asarray(points)


def trajectory(logdensity, start, rng_key, num_steps, step_size=0.12):
    """Points along a Langevin trajectory: the ends of those of 1, 2, ... steps with the same random numbers."""
    density, kinetic = FlatDensity(logdensity, lambda x: x), gaussian_kinetic(1.0)
    state = density.state_at(start)
    momentum, *noises = kinetic.draw(rng_key, like=start, num=3)

    def end(length):
        return dlhmc(noises, density, kinetic, step_size, length, 0.5, state, momentum)[0].position

    return np.asarray([start, *(end(length) for length in range(1, num_steps + 1))])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("benchmarks/results/moves.png"))
    options = parser.parse_args()
    covariance = np.array([[1.0, 0.85], [0.85, 1.0]])
    precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)
    panels = {
        "a correlated Gaussian": (lambda x: -0.5 * x @ precision @ x, (-3, 3), (-3, 3), jnp.array([1.6, 1.0])),
        "a banana": (banana, (-3.6, 3.6), (-3.2, 3.6), jnp.array([-0.3, -0.6])),
    }
    figure, axes = plt.subplots(1, 2, figsize=(10, 5.2), layout="constrained")
    for axis, (title, (logdensity, xs, ys, start)) in zip(axes, panels.items(), strict=True):
        grid = jnp.stack(jnp.meshgrid(jnp.linspace(*xs, 200), jnp.linspace(*ys, 200)), axis=-1)
        energy = -np.asarray(jax.vmap(jax.vmap(logdensity))(grid))
        axis.contour(
            grid[..., 0], grid[..., 1], energy, levels=[0.1, 0.5, 1.2, 2.2, 4, 7], colors="0.8", linewidths=0.9
        )
        level = float(-logdensity(start))
        axis.contour(grid[..., 0], grid[..., 1], energy, levels=[level], colors=GREY, linewidths=1.6)
        axis.plot(*start, "*", color="black", markersize=14, zorder=5, label="start")
        axis.plot([], [], color=GREY, linewidth=1.6, label="density as at the start")
        chords = transformations(logdensity, start, jax.random.key(3), 4)
        axis.plot(
            *chords.T,
            "o--",
            color=BLUE,
            markersize=6,
            linewidth=1.3,
            label="equipotential transformations",
        )
        for i, key in enumerate(jax.random.split(jax.random.key(5), 2)):
            path = trajectory(logdensity, start, key, 18)
            axis.plot(
                *path.T,
                ".-",
                color=ORANGE,
                markersize=4,
                linewidth=1.3,
                label="Langevin trajectories" if i == 0 else None,
            )
            axis.plot(*path[-1], "s", color=ORANGE, markersize=7, label="their ends" if i == 0 else None)
        axis.set(title=title, xlim=xs, ylim=ys, xlabel="$x_0$", ylabel="$x_1$")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=5, frameon=False)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.output, dpi=110)
    print(f"saved {options.output}")


if __name__ == "__main__":
    main()
