"""The mixtures that tests, benchmarks and notebooks share, each by its definition in the literature.

References
----------
.. [1] M. Gu and S. Sun, Variational Langevin Hamiltonian Monte Carlo for distant multi-modal sampling, 2019:
   experiments E1 (one correlated Gaussian), E2 (two modes), E3 (dimension), E4 (unequal shapes).
.. [2] L. I. Midgley et al., Flow annealed importance sampling bootstrap, ICLR 2023: the forty Gaussians.
.. [3] F. Liang and W. H. Wong, Real-parameter evolutionary Monte Carlo, JASA 96, 2001; S. C. Kou, Q. Zhou and
   W. H. Wong, Equi-energy sampler, Annals of Statistics 34, 2006: the twenty modes.
.. [4] J. Behboodian, On the modes of a mixture of two normal distributions,
   Technometrics 12, 1970: when two components make two modes.
"""

import numpy as np

from vhmc_jax.targets.gaussian import GaussianMixtureTarget

_TWENTY_MEANS = (
    (2.18, 5.76), (8.67, 9.59), (4.24, 8.48), (8.41, 1.68), (3.93, 8.82), (3.25, 3.47), (1.70, 0.50),
    (4.59, 5.60), (6.91, 5.81), (6.87, 5.40), (5.41, 2.65), (2.70, 7.88), (4.98, 3.70), (1.14, 2.39),
    (8.33, 9.50), (4.93, 1.50), (1.83, 0.09), (2.26, 0.31), (5.54, 6.86), (1.69, 8.11),
)  # fmt: skip


def is_bimodal(distance: float, weight: float = 0.5) -> bool:
    r"""Whether two Gaussians of one covariance, this far apart, make two modes.

    With half the Mahalanobis distance :math:`h` between the means, they do exactly when [4]_

    .. math:: h > 1 \quad\text{and}\quad |\log(w/(1-w))| < 2 h\sqrt{h^2-1} + 2\log(h - \sqrt{h^2-1}).
    """
    half = 0.5 * distance
    if half <= 1.0:
        return False
    root = np.sqrt(half**2 - 1.0)
    return bool(abs(np.log(weight / (1.0 - weight))) < 2.0 * half * root + 2.0 * np.log(half - root))


def _pair(weight: float, mean: np.ndarray) -> GaussianMixtureTarget:
    """``weight`` N(mean, I) + (1 − weight) N(−mean, I)."""
    if not 0.0 < weight < 1.0:
        raise ValueError(f"weight must lie strictly between 0 and 1, got {weight}")
    mode_of = (0, 1) if is_bimodal(2.0 * float(np.linalg.norm(mean)), weight) else (0, 0)
    return GaussianMixtureTarget([weight, 1.0 - weight], np.stack([mean, -mean]), np.ones(2), mode_of=mode_of)


def correlated_gaussian() -> GaussianMixtureTarget:
    """One Gaussian in two dimensions with variances 10² and 10⁻², rotated by π/4 (E1)."""
    cosine = np.sqrt(0.5)
    rotation = np.array([[cosine, -cosine], [cosine, cosine]])
    scale = np.linalg.cholesky(rotation @ np.diag([1e2, 1e-2]) @ rotation.T)
    return GaussianMixtureTarget([1.0], np.zeros((1, 2)), scale[None])


def near_pair(weight: float = 0.5) -> GaussianMixtureTarget:
    """``weight`` N(μ, I) + (1 − weight) N(−μ, I) with μ = (2.5, −2.5): the near pair of E2."""
    return _pair(weight, np.array([2.5, -2.5]))


def far_pair(weight: float = 0.7) -> GaussianMixtureTarget:
    """``weight`` N(μ, I) + (1 − weight) N(−μ, I) with μ = (6.5, −6.5); E2's far pair at weight 0.5."""
    return _pair(weight, np.array([6.5, -6.5]))


def high_dimensional_pair(dim: int, separation: float = 1.0) -> GaussianMixtureTarget:
    """0.7 N(−m·1, I) + 0.3 N(+m·1, I) in ``dim`` dimensions, m the ``separation`` (E3 at m = 1)."""
    if dim < 1:
        raise ValueError(f"dim must be at least 1, got {dim}")
    return _pair(0.7, np.full(dim, -separation))


def three_modes() -> GaussianMixtureTarget:
    """Three Gaussians on the line at −20, 0, 20: weights 0.1, 0.8, 0.1, standard deviations 1, 3, 2 (E4)."""
    return GaussianMixtureTarget([0.1, 0.8, 0.1], [[-20.0], [0.0], [20.0]], [1.0, 3.0, 2.0])


def narrow_pair() -> GaussianMixtureTarget:
    """Two Gaussians of covariance diag(0.01, 1) at ±(4, 0), equal weights (E4)."""
    return GaussianMixtureTarget([0.5, 0.5], [[-4.0, 0.0], [4.0, 0.0]], [[0.1, 1.0], [0.1, 1.0]])


def unequal_pair() -> GaussianMixtureTarget:
    """A narrow and a wide mode: standard deviation 0.1 at (−4, 0) and 1 at (4, 0), equal weights."""
    return GaussianMixtureTarget([0.5, 0.5], [[-4.0, 0.0], [4.0, 0.0]], [0.1, 1.0])


def gmm40() -> GaussianMixtureTarget:
    """Forty Gaussians in the plane of which four pairs merge: thirty-six modes (Midgley et al. 2023)."""
    # The bytes of this generator are fixed by NumPy's compatibility promise, and so are the means.
    words = np.frombuffer(np.random.RandomState(0).bytes(320), "<u4")
    means = (((words & 0xFFFFFF) / 2**24 - 0.5) * 80.0).reshape(40, 2)
    scale = float(np.log1p(np.e))
    mode_of: list[int] = []
    for i, mean in enumerate(means):
        distances = np.linalg.norm(means[:i] - mean, axis=1) / scale
        merged = [mode_of[j] for j in range(i) if not is_bimodal(float(distances[j]))]
        mode_of.append(merged[0] if merged else max(mode_of, default=-1) + 1)
    return GaussianMixtureTarget(np.full(40, 1 / 40), means, np.full(40, scale), mode_of=tuple(mode_of))


def twenty_modes() -> GaussianMixtureTarget:
    """Twenty Gaussians in the plane of standard deviation 0.1 and equal weights (Liang & Wong 2001)."""
    return GaussianMixtureTarget(np.full(20, 1 / 20), np.array(_TWENTY_MEANS), np.full(20, 0.1))
