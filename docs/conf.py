"""How the site is built: ``make docs``, into out/site/. It needs no network, and neither does who reads it."""

import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

import vhmc_jax  # noqa: E402

project = "vhmc_jax"
author = "the authors of vhmc_jax"
version = release = vhmc_jax.__version__
html_title = f"{project} {release}"

extensions = ["sphinx.ext.autodoc", "numpydoc", "myst_nb", "mathml", "layers"]
exclude_patterns = ["benchmarks/results/paper/e5.md"]  # a part of the page beside it

# The pages take notebooks and results from where they are made. Links between them are the same in both places.
for made in ("notebooks", "benchmarks/results"):
    shutil.rmtree(HERE / made, ignore_errors=True)
for source, pattern in (("notebooks", "*.ipynb"), ("benchmarks/results", "*/*.md"), ("benchmarks/results", "**/*.png")):
    for file in (HERE.parent / source).glob(pattern):
        copy = HERE / file.relative_to(HERE.parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)

# Notebooks are shown as they were executed by `make notebooks`.
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_copyright = False
html_copy_source = False
html_show_search_summary = False  # it would be fetched, which a browser refuses where pages are read from a disk
html_theme_options = {"navigation_with_keys": True}


def _skip_fields(app, what, name, member, skip, options):
    """Leave out what NamedTuple gives to its classes: the docstring lists the fields."""
    return True if type(member).__name__ == "_tuplegetter" else None


def _literal_bars(app, what, name, member, options, lines):
    """|x| is an absolute value in docstrings, and not a substitution of reStructuredText."""
    is_math = False
    for i, line in enumerate(lines):
        is_math = line.lstrip().startswith(".. math::") or (is_math and (not line.strip() or line.startswith(" ")))
        if not is_math and not line.lstrip().startswith((">>>", "...")):
            pieces = re.split(r"(``.*?``|:math:`.*?`)", line)
            lines[i] = "".join(
                piece if piece.startswith(("``", ":")) else piece.replace("|", r"\|") for piece in pieces
            )


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", _skip_fields)
    app.connect("autodoc-process-docstring", _literal_bars, priority=1)
