"""Docstrings say what the code says: parameters as in signatures, attributes as in fields, examples that run."""

import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import jax
import pytest

import vhmc_jax

MODULES = [importlib.import_module(info.name) for info in pkgutil.walk_packages(vhmc_jax.__path__, "vhmc_jax.")]


def own_members(module):
    """Public functions and classes defined in a module, and the public methods of those classes."""
    for name, member in vars(module).items():
        member = inspect.unwrap(member) if callable(member) else member
        if name.startswith("_") or getattr(member, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(member) or inspect.isclass(member):
            yield f"{module.__name__}.{name}", member
        if inspect.isclass(member):
            for method_name, method in vars(member).items():
                method = inspect.unwrap(getattr(method, "__func__", method))
                if not method_name.startswith("_") and inspect.isfunction(method):
                    yield f"{module.__name__}.{name}.{method_name}", method


MEMBERS = {name: member for module in MODULES for name, member in own_members(module)}
FUNCTIONS = {name: member for name, member in MEMBERS.items() if inspect.isfunction(member)}
CLASSES = {name: member for name, member in MEMBERS.items() if inspect.isclass(member)}


def documented(docstring, section):
    """Names in a numpydoc section, or None where the docstring has no such section."""
    text = inspect.cleandoc(docstring or "")
    found = re.search(rf"^{section}\n-+\n(.*?)(?=^\w[^\n]*\n-+$|\Z)", text, re.DOTALL | re.MULTILINE)
    if found is None:
        return None
    names = re.findall(r"^(\S[^\n]*?)(?: : [^\n]*)?$", found[1], re.MULTILINE)
    return [name.lstrip("*") for line in names for name in line.split(", ")]


def parameters(function):
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def fields(cls):
    """Fields that a NamedTuple or dataclass is made with, or None for another class."""
    if hasattr(cls, "_fields"):
        return list(cls._fields)
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls) if field.init]
    return None


def assert_documented(names, docstring, section):
    given = documented(docstring, section)
    assert given is None or given == names, f"{section} are {given}, in the code {names}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    function = FUNCTIONS[name]
    assert function.__doc__, "every public function says in one line what it does"
    assert_documented(parameters(function), function.__doc__, "Parameters")


@pytest.mark.parametrize("name", CLASSES)
def test_class(name):
    cls = CLASSES[name]
    names = fields(cls)
    docstring = cls.__dict__.get("__doc__") or ""
    assert docstring, "every public class says in one line what it is"
    assert not docstring.startswith(f"{cls.__name__}("), "the docstring is the one that Python made"
    if names is None:
        assert_documented(parameters(cls.__init__), docstring, "Parameters")
    else:
        assert_documented(names, docstring, "Attributes")
        assert_documented(names, docstring, "Parameters")


@pytest.mark.parametrize("name", vhmc_jax.__all__)
def test_exported_names_are_documented_in_full(name):
    """What users see has every parameter or field described."""
    member = getattr(vhmc_jax, name)
    if inspect.isclass(member):
        sections = [documented(member.__doc__, section) for section in ("Attributes", "Parameters")]
        assert fields(member) in sections
    elif inspect.isfunction(member):
        assert documented(member.__doc__, "Parameters") == parameters(member)
        assert "\nReturns\n" in inspect.cleandoc(member.__doc__ or "")


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_run(module):
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):  # as users run them
        assert doctest.testmod(module).failed == 0


def test_the_skeleton_of_a_kernel_runs_and_leaves_a_gaussian_as_it_is():
    text = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    names = {"__name__": __name__}
    exec(compile(block, "CONTRIBUTING.md", "exec", dont_inherit=True), names)
    starts = jax.random.normal(jax.random.key(0), (2000, 2))
    chains = vhmc_jax.run_chains(jax.random.key(1), names["kernel"], starts, 1, num_burnin=9)
    assert bool(chains.infos.is_accepted.any())
    assert abs(float((chains.draws**2).mean()) - 1) < 5 * (2 / 4000) ** 0.5


def test_a_docstring_that_drifted_is_seen():
    docstring = """One line.

    Parameters
    ----------
    first, second
        Two of them.
    third : int
        Another: with a colon.

    Returns
    -------
    Nothing.
    """
    assert documented(docstring, "Parameters") == ["first", "second", "third"]
    assert documented(docstring, "Attributes") is None
    assert_documented(["first", "second", "third"], docstring, "Parameters")
    with pytest.raises(AssertionError, match="third"):
        assert_documented(["first", "second"], docstring, "Parameters")
