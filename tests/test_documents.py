"""What README and the site say is run, and what the site refers to exists."""

import functools
import inspect
import re
from pathlib import Path

import jax
import matplotlib as mpl
import pytest

import vhmc_jax as vj

mpl.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("*/*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))]
MOST_LINES = 120
SKETCHES = ("docs/how_to/long_runs.md",)
"""Pages whose code needs a cluster, or hours: it is compiled, and not run."""


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype float64")  # PyMC, in single precision
def test_code_of_a_page_runs(page, tmp_path, monkeypatch):
    """The blocks of a page, one after another, as one who reads it types them."""
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        for block in BLOCK.findall(page.read_text(encoding="utf-8")):
            code = compile(block, str(page), "exec")
            if str(page.relative_to(ROOT)) not in SKETCHES:
                exec(code, names)
    plt.close("all")
    if "result" in names:
        assert names["result"].is_trusted


def test_readme_is_short_and_has_its_two_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= MOST_LINES
    assert "\nmake demo" in readme
    assert "\nmake test" in readme


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    """Those within the repository; the site has copies of notebooks and of results in the same folders."""
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / link).resolve()
        inside = target.relative_to(ROOT)
        made = inside.parts[0] == "docs" and inside.parts[1] in ("notebooks", "benchmarks", "_static")
        assert target.exists() or (made and made_from(inside)), f"{page.name} leads to {link}, which is not there"


def made_from(inside: Path) -> bool:
    """Whether a file of the site is made when the site is built."""
    return (ROOT / Path(*inside.parts[1:])).exists() or inside.name == "layers.svg"


def test_reference_has_every_public_name():
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md"))
    found = re.findall(r"^\.\. auto\w+:: (vhmc_jax\.\S+)$", text, re.MULTILINE)
    assert len(found) == len(set(found))
    names = {f"vhmc_jax.{name}" for name in set(vj.__all__) - {"__version__", "diagnostics", "targets"}}
    parts = {f"vhmc_jax.{part}.{name}" for part in ("diagnostics", "targets") for name in getattr(vj, part).__all__}
    assert set(found) == names | parts
    code = "".join(block for page in WITH_CODE for block in BLOCK.findall(page.read_text(encoding="utf-8")))
    for name in found:
        documented = functools.reduce(getattr, name.split(".")[1:], vj)
        is_shown = "\nExamples\n" in inspect.cleandoc(documented.__doc__ or "")
        assert is_shown or re.search(rf"\b{name.split('.')[-1]}\b", code), f"{name} has no example"
