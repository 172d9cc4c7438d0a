"""Every module of the package has a test file.

That is ``test_<module>.py``, or ``test_<package>.py`` of the package that the module is in. Where another file has the
tests, it is named here.
"""

from pathlib import Path

import pytest

import vhmc_jax

ROOT, TESTS = Path(vhmc_jax.__file__).parent, Path(__file__).parent
PACKAGES = {"guide": "mixture", "search": "modes", "pipeline": "sample"}
"""Packages that are tested as a whole under the name of what they are for."""
FOLDERS = {"diagnostics/modes": "mode_", "pipeline/report": "report_"}
"""Folders whose test files have a prefix."""
ELSEWHERE = {
    "diagnostics/bridge.py": "evidence",
    "dynamics/monomial.py": "monomial_gamma_hmc",
    "kernels/hmc.py": "invariance",
    "kernels/lhmc_et.py": "et_invariance",
    "kernels/with_jumps.py": "vhmc",
    "moves/candidate.py": "jump",
    "moves/labels.py": "symmetries",
    "moves/maps.py": "symmetries",
}
"""Modules that are tested with the kernel, or the figure, that they are made for."""
MODULES = sorted(
    path.relative_to(ROOT) for path in ROOT.rglob("*.py") if path.name != "__init__.py" and path.stem != "__main__"
)


def candidates(module: Path) -> list[str]:
    """Names of the files that may test a module; the first that exists does."""
    prefix = FOLDERS.get(str(module.parent), "")
    package = [] if module.parent == Path() else [PACKAGES.get(module.parts[0], module.parts[0])]
    elsewhere = [ELSEWHERE[str(module)]] if str(module) in ELSEWHERE else []
    return [f"test_{name}.py" for name in (prefix + module.stem, *package, *elsewhere)]


def file_for(module: Path) -> str | None:
    """The file that tests a module; None where there is none."""
    return next((name for name in candidates(module) if (TESTS / name).exists()), None)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_module_has_a_test_file(module):
    assert file_for(module), f"{module} has none of {candidates(module)}; write one, or name the file in ELSEWHERE"


@pytest.mark.parametrize("module", ELSEWHERE)
def test_named_elsewhere_is_needed_and_true(module):
    assert (ROOT / module).exists(), f"{module} is gone: take it out of ELSEWHERE"
    assert file_for(Path(module)) == f"test_{ELSEWHERE[module]}.py", f"{module} has its own file or none"


def test_a_module_without_tests_is_seen():
    assert file_for(Path("kernels/no_such_kernel.py")) is None
    assert file_for(Path("no_such_module.py")) is None
    assert file_for(Path("random/threefry.py")) == "test_random.py"
    assert file_for(Path("diagnostics/modes/labels.py")) == "test_mode_labels.py"
