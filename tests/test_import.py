"""Importing the package is quick: what is heavy, and not needed by every call, is imported when it is used."""

import subprocess
import sys

HEAVY = ("scipy.special", "scipy.optimize", "scipy.stats", "matplotlib", "arviz", "numpyro", "pymc", "pandas")


def test_import_leaves_heavy_libraries_alone():
    code = f"import sys, vhmc_jax; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
