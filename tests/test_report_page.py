"""The page of a result holds everything, escaped, and asks for nothing from elsewhere."""

import re

import pytest
from reports import result_of

from vhmc_jax.diagnostics import mode_report


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "run.html"
    result_of(names=("<mu>", "sd"), warnings=("R-hat is 1.5 > 1.02: raise num_samples.",)).to_html(path)
    return path.read_text(encoding="utf-8")


def test_page_is_alone(html):
    assert not re.findall(r'(?:src|href)="(?!data:)', html), "nothing is loaded from elsewhere"
    assert "http" not in re.sub(r"base64,[^\"]*", "", html)
    assert html.count("data:image/png;base64,") == 5


def test_page_has_tables_warnings_settings_and_versions(html):
    for part in ("R-hat is 1.5 &gt; 1.02", "weight by bridge", "&lt;mu&gt;", "0.1 to 1", "vhmc-jax", "Cost", "jaxlib"):
        assert part in html
    assert "<mu>" not in html
    assert html.count("<table>") == 6
    assert 'data-value="1000.0">1,000<' in html


def test_one_mode_has_a_page(tmp_path):
    result_of(num_modes=1).to_html(tmp_path / "one.html")
    text = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert "Nothing disagrees with the answer." in text
    assert "The parameters in each mode" not in text
    assert not re.findall(r"<td[^>]*>nan", text), "what is not known is a dash"


def test_what_is_no_path_is_named():
    with pytest.raises(TypeError, match="path must be that of a file, got int: 3"):
        result_of().to_html(3)


def test_a_run_that_was_cut_short_says_so():
    result = result_of()
    short = type(result)(**{**vars(result), "is_complete": False})
    for text in (short.summary(), short._repr_html_()):
        assert "Cut short by Ctrl-C" in text
    assert "Cut short" not in result.summary()


def test_of_a_long_run_the_draws_that_were_judged_are_shown(tmp_path):
    result = result_of()
    modes = mode_report(labels=result.modes.labels[:, ::2], num_modes=2).located(result.draws[:, ::2])
    long = type(result)(**{**vars(result), "modes": modes, "judged_every": 2})
    long.to_html(tmp_path / "long.html")
    assert "One draw in 2" in (tmp_path / "long.html").read_text(encoding="utf-8")


def test_notebook_fragment_is_short(html):
    fragment = result_of(num_modes=30)._repr_html_()
    assert "10 more modes" in fragment
    assert "<script" not in fragment
