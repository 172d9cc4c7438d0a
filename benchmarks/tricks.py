"""What each trick for speed gains: the same program with it and without it, in one run.

Steps: ``lhmc`` (10 leapfrog steps) and ``vhmc`` on a standard Gaussian, float32, chains in one compiled loop. Each
variant replaces one part of the package before the loop is compiled. Variants take turns. The figure is the median over
the turns, compile time apart.

Calls: a first and a second ``vj.sample`` on the far pair, each pair of calls in a process of its own.

The table shows time without the trick over time with it. What is below 1.15 everywhere has to go. The conditional that
stays lazy under ``vmap`` has a benchmark of its own, ``lazy.py``.

    python benchmarks/tricks.py [--turns 9] [--rounds 5]
"""

import argparse
import contextlib
import functools
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry2x32_p
from provenance import commit

import vhmc_jax as vj
from vhmc_jax import linalg, programs, random, threads
from vhmc_jax.random import batches, numbers, threefry

SHAPES = [("lhmc", 2, 64), ("lhmc", 2, 512), ("lhmc", 64, 256), ("vhmc", 2, 64), ("vhmc", 2, 512)]
MANY = 2**30


# Random numbers without one of the tricks of vhmc_jax.random.


def split_by_hash(rng_key, num=2):
    """A hash for each new key, instead of a path that is hashed when numbers are drawn."""
    return tuple(random.fold_in(rng_key, number) for number in range(1, num + 1))


@jax.custom_batching.custom_vmap
def rolled_block(high, low, path, counter):
    """JAX's own Threefry: a loop over rounds."""
    return tuple(threefry2x32_p.bind(high, low, path, counter))


@rolled_block.def_vmap
def _(axis_size, in_batched, *words):
    whole = (
        word if is_batched else jnp.broadcast_to(word, (axis_size, *word.shape))
        for word, is_batched in zip(words, in_batched, strict=True)
    )
    return rolled_block(*whole), (True, True)


@jax.jit
def rolled_hash(high, low, path, counter):
    return rolled_block(*jnp.broadcast_arrays(high, low, jnp.uint32(path), counter))


@functools.cache
def drawer_of_one_word(transform, count, dtype):
    """One number of each hash instead of two."""
    draw = DRAWER(transform, 2 * count, dtype)
    return lambda *key: draw(*key)[..., :count]


def normals_by_erf_inv(x0, x1, dtype):
    """The quantile function instead of Box and Muller's pair."""
    uniforms = numbers.uniforms(x0, x1, dtype)

    def quantile(uniform):
        smallest = np.nextafter(np.float32(-1), np.float32(0))
        return np.float32(np.sqrt(2)) * jax.lax.erf_inv(jnp.maximum(2 * uniform - 1, smallest))

    return jax.lax.complex(quantile(uniforms.real), quantile(uniforms.imag))


def normals_by_sin_and_cos(x0, x1, dtype):
    """Box and Muller's pair with XLA's sine and cosine instead of polynomials."""
    u = numbers.signed(x0 >> np.uint32(1)) * np.float32(2**-31) + np.float32(2**-32)
    angle = numbers.signed(x1) * np.float32(2**-31 * np.pi)
    radius = jnp.sqrt(-2 * jnp.log(u))
    return jax.lax.complex(radius * jnp.cos(angle), radius * jnp.sin(angle))


DRAWER = batches.drawer
JAX_RANDOM = {
    "split": lambda rng_key, num=2: tuple(jax.random.split(rng_key, num)),
    "fold_in": jax.random.fold_in,
    "as_jax_key": lambda rng_key: rng_key,
    "uniform": lambda rng_key, shape=(), dtype=float: jax.random.uniform(rng_key, shape, dtype),
    "normal": lambda rng_key, shape=(), dtype=float: jax.random.normal(rng_key, shape, dtype),
    "integer": lambda rng_key, low, high: jax.random.randint(rng_key, (), low, high + 1),
}
VARIANTS = {
    "as it is": (random, {}),
    "all random numbers (jax.random)": (random, JAX_RANDOM),
    "unrolled hash (loop over rounds)": (threefry, {"hash_traced": rolled_hash}),
    "both words of a hash (one)": (batches, {"drawer": drawer_of_one_word}),
    "keys with a path (a hash each)": (random, {"split": split_by_hash}),
    "blocks of hashes (all flat)": (batches, {"FEW_HASHES": MANY}),
    "few hashes flat (in blocks)": (batches, {"FEW_HASHES": 0}),
    "Box-Muller (erf_inv)": (numbers, {"normals": normals_by_erf_inv}),
    "polynomial sine (XLA's)": (numbers, {"normals": normals_by_sin_and_cos}),
    "sums for small products (einsum)": (linalg, {"FEW_NUMBERS": 0}),
}


@contextlib.contextmanager
def replaced(module, parts):
    """The package with these names of a module replaced, and nothing compiled left over."""
    before = {name: getattr(module, name) for name in parts}
    DRAWER.cache_clear()
    jax.clear_caches()
    for name, part in parts.items():
        setattr(module, name, part)
    try:
        yield
    finally:
        for name, part in before.items():
            setattr(module, name, part)


def kernel_of(name, dim):
    def logdensity(x):
        return -0.5 * jnp.sum(x**2)

    settings = {"step_size": 0.2, "num_integration_steps": 10}
    if name == "lhmc":
        return vj.lhmc(logdensity, **settings)
    means = jnp.stack([jnp.zeros(dim, jnp.float32), jnp.full(dim, 0.5, jnp.float32)])
    guide = vj.GaussianMixture(np.log([0.7, 0.3]), means, np.stack([np.eye(dim)] * 2))
    return vj.vhmc(logdensity, guide, log_envelope=0.0, jump_probability=0.1, **settings)


def compiled_loop(kernel, states):
    """A program of some iterations of the vmapped step, nothing stored."""

    def run(rng_key, states, num_iterations):
        numbers = jnp.arange(len(states.logdensity), dtype=jnp.uint32)
        chain_keys = jax.vmap(lambda number: random.as_jax_key(random.fold_in(rng_key, number)))(numbers)

        def body(iteration, states):
            keys = jax.vmap(lambda key: random.as_jax_key(random.fold_in(key, iteration)))(chain_keys)
            return jax.vmap(kernel.step)(keys, states)[0]

        return jax.lax.fori_loop(jnp.uint32(0), num_iterations, body, states)

    return jax.jit(run).lower(jax.random.key(1), states, jnp.uint32(1)).compile()


def measure_steps(name, dim, chains, num_turns):
    """Median seconds a step of each variant."""
    x = jax.random.normal(jax.random.key(0), (chains, dim), jnp.float32)
    loops = {}
    for variant, (module, parts) in VARIANTS.items():
        with replaced(module, parts):
            kernel = kernel_of(name, dim)
            states = jax.vmap(kernel.init)(x)
            loops[variant] = functools.partial(compiled_loop(kernel, states), jax.random.key(1), states)

    def seconds(loop, num_iterations):
        started = time.perf_counter()
        jax.block_until_ready(loop(jnp.uint32(num_iterations)))
        return (time.perf_counter() - started) / num_iterations

    num_iterations = max(20, int(0.04 / min(seconds(loops["as it is"], 50) for _ in range(3))))
    turns = [[seconds(loop, num_iterations) for loop in loops.values()] for _ in range(num_turns)]
    return dict(zip(loops, np.median(turns, axis=0), strict=True))


CALLS = {
    "as it is": "",
    "options of XLA in search and fit": "--without-options",
    "one thread of BLAS (all)": "--with-threads",
}


def seconds_of_calls():
    """A first and a second call of ``sample`` in this process."""
    target = vj.targets.far_pair(0.7)
    region = vj.box(jnp.full(2, -10.0), jnp.full(2, 10.0))
    jax.block_until_ready(jax.jit(lambda x: x + 1)(jnp.zeros(2)))  # JAX itself has started
    found = []
    for seed in range(2):
        started = time.perf_counter()
        jax.block_until_ready(vj.sample(jax.random.key(seed), target.logdensity, region, progress=False).draws)
        found.append(time.perf_counter() - started)
    return found


def measure_calls(num_rounds):
    """Median seconds of a first and a second call, of each variant in turn."""
    rounds = []
    for _ in range(num_rounds):
        outputs = (
            subprocess.run(
                [sys.executable, __file__, "--calls", *flags.split()], capture_output=True, text=True, check=True
            ).stdout
            for flags in CALLS.values()
        )
        rounds.append([[float(number) for number in output.split()] for output in outputs])
    return dict(zip(CALLS, np.median(rounds, axis=0), strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", action="store_true", help="time two calls of sample here, and print their seconds")
    parser.add_argument("--without-options", action="store_true", help="compile search and fit as jax.jit does")
    parser.add_argument("--with-threads", action="store_true", help="products of matrices with all threads of BLAS")
    options = parser.parse_args()
    if options.calls:
        if options.without_options:
            programs.are_known = lambda _: False
        if options.with_threads:
            threads.threadpool_limits = lambda **_: contextlib.nullcontext()
        print(*seconds_of_calls())
        return
    print(f"jax {jax.__version__}, {jax.devices()[0].platform}, commit {commit('benchmarks')}")
    columns = [measure_steps(*shape, options.turns) for shape in SHAPES]
    print("\nA step without the trick over a step with it, by (dimension, chains)")
    print(f"{'':36}" + "".join(f"{name + f' ({dim}, {chains})':>16}" for name, dim, chains in SHAPES))
    print(f"{'as it is, µs':36}" + "".join(f"{1e6 * column['as it is']:16.1f}" for column in columns))
    for variant in list(VARIANTS)[1:]:
        print(f"{variant:36}" + "".join(f"{column[variant] / column['as it is']:16.2f}" for column in columns))
    calls = measure_calls(options.rounds)
    print("\nA call of sample on the far pair, seconds as it is, and without over with")
    first, second = calls["as it is"]
    print(f"{'as it is':36}{first:16.2f}{second:16.3f}")
    for variant in list(CALLS)[1:]:
        print(f"{variant:36}{calls[variant][0] / first:16.2f}{calls[variant][1] / second:16.2f}")


if __name__ == "__main__":
    main()
