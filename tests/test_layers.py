"""Imports go downward only: read from the source, so that an import inside a function counts too."""

import ast
from pathlib import Path

import pytest

import vhmc_jax

ROOT = Path(vhmc_jax.__file__).parent
BASE = {"base", "functions", "arguments", "density", "linalg", "random", "lazy", "programs", "threads"}
# Each layer may import those before it, and itself.
LAYERS = [
    BASE,
    {"store"},
    {"guide"},
    {"dynamics"},
    {"metropolis"},
    {"moves"},
    {"kernels"},
    {"runner"},
    {"search"},
    {"models"},
    {"fit"},
    {"pipeline"},
]
# Beside the layers: diagnostics look at draws and guides; targets are for tests, benchmarks and users; the command line
# shows what is stored.
BESIDE = {"diagnostics": BASE | {"guide"}, "targets": BASE, "__main__": {"store"}}
# Files of `random`, each with those that it may import.
RANDOM = {
    "threefry": set(),
    "numbers": set(),
    "keys": {"threefry"},
    "batches": {"threefry", "numbers"},
    "draws": {"threefry", "numbers", "keys", "batches"},
}
JUDGING = {"fit", "pipeline"}  # these look at draws, and may use diagnostics for it


def allowed(part: str) -> set[str]:
    """Parts of the package that ``part`` may import."""
    if part in BESIDE:
        return BESIDE[part] | {part}
    rank = next(i for i, layer in enumerate(LAYERS) if part in layer)
    return set().union(*LAYERS[: rank + 1]) | ({"diagnostics"} if part in JUDGING else set())


def imported_parts(source: str, package: str = "vhmc_jax") -> set[str]:
    """First names under ``package`` that the source imports, in whichever way it is written."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    inside = (f"{name}." for name in names if f"{name}.".startswith(f"{package}."))
    return {name.removeprefix(f"{package}.").split(".")[0] for name in inside}


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_downward(path):
    upward = imported_parts(path.read_text()) - allowed(part_of(path))
    assert not upward, f"{path.relative_to(ROOT)} imports {sorted(upward)}, which lie above it"


def test_files_of_random_import_downward():
    files = {path.stem: path.read_text() for path in (ROOT / "random").glob("*.py") if path.stem != "__init__"}
    assert files.keys() == RANDOM.keys()
    for name, source in files.items():
        assert imported_parts(source, "vhmc_jax.random") <= RANDOM[name]


def test_every_part_has_a_layer():
    assert {part_of(path) for path in MODULES} <= set(BESIDE).union(*LAYERS)


def test_an_upward_import_is_seen():
    sources = (
        "import vhmc_jax.runner",
        "from vhmc_jax.runner.chains import run_chains",
        "from vhmc_jax import runner",
        "def f():\n    from vhmc_jax import runner",
    )
    for source in sources:
        assert imported_parts(source) - allowed("kernels") == {"runner"}
        assert imported_parts(source) - allowed("pipeline") == set()
    assert imported_parts("import vhmc_jax as vj") - allowed("pipeline"), "the package itself is above all parts"
    assert imported_parts("from vhmc_jax.dynamics import leapfrog") - allowed("targets")
