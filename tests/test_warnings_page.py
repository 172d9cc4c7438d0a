"""Every sentence of warning in the source has its paragraph on the page that explains them, and none there is stale.

A warning is a string of the package that is a sentence (it ends with a full stop), or is given to ``warnings.warn``,
and is neither a docstring nor part of an error. On the page it is a heading: its beginning, with an ellipsis for what
is filled in.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

import vhmc_jax

ROOT = Path(vhmc_jax.__file__).parent
PAGE = Path(__file__).parent.parent / "docs" / "how_to" / "warnings.md"
LEAST_WORDS, LEAST_HEADING = 4, 15
NO_WARNINGS = ("pipeline/report", "pipeline/result.py", "fit/report.py", "__main__.py")
"""Where sentences show a result."""


def text_of(node: ast.AST) -> str | None:
    """A string, or an f-string with an ellipsis for each value; None for anything else."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def warnings_of(source: str) -> set[str]:
    """The sentences of warning in the source of a module."""
    tree = ast.parse(source)
    passed_over, warned = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            passed_over |= {id(child) for child in ast.walk(node)}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            passed_over.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            passed_over |= {id(child) for part in node.values for child in ast.walk(part) if child is not node}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".add_note"):
            passed_over |= {id(child) for child in ast.walk(node)}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
            warned |= {id(argument) for argument in node.args}
    texts = {(text_of(node), id(node)) for node in ast.walk(tree) if id(node) not in passed_over}
    return {text for text, number in texts if text is not None and (number in warned or is_sentence(text))}


def is_sentence(text: str) -> bool:
    """Whether it begins and ends as a sentence does, and has some words."""
    return text.endswith(".") and text[0] not in ".;:," and len(text.split()) >= LEAST_WORDS and "\n" not in text


@cache
def all_warnings() -> set[str]:
    """Those of the package."""
    files = (path for path in ROOT.rglob("*.py") if not str(path.relative_to(ROOT)).startswith(NO_WARNINGS))
    return set().union(*(warnings_of(path.read_text(encoding="utf-8")) for path in files))


def headings() -> list[str]:
    """Beginnings of warnings that the page explains."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("### ").removesuffix(" …").strip() for line in lines if line.startswith("### ")]


@pytest.mark.parametrize("warning", sorted(all_warnings()))
def test_warning_has_a_paragraph(warning):
    assert any(warning.startswith(heading) for heading in headings()), f"{PAGE.name} needs a heading '### {warning}'"


@pytest.mark.parametrize("heading", headings())
def test_paragraph_is_about_a_warning_that_exists(heading):
    assert any(warning.startswith(heading) for warning in all_warnings()), f"nothing warns of '{heading}' any more"
    assert len(heading) >= LEAST_HEADING, "a heading is long enough to tell its warning from others"


def test_a_warning_is_told_from_other_strings():
    source = """
'A docstring is not a warning, of course.'
def f(n):
    if n < 0:
        raise ValueError("n must be positive, got a negative one.")
    error.add_note("What is noted here is part of an error.")
    warnings.warn(f"{n} is small: it is made again")
    name, few = "a few words.", "no full stop at the end"
    return [f"The number {n} is what it is: raise num_samples."]
"""
    assert warnings_of(source) == {"… is small: it is made again", "The number … is what it is: raise num_samples."}
