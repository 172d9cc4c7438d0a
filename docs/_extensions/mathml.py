"""Mathematics as MathML, which browsers draw by themselves: no script, and the font comes with the pages."""

import re
from html import escape
from pathlib import Path

from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)


def _mathml(tex, node, is_block):
    tex = re.sub(r"\\[Bb]igg?[lr]?(?![a-z])", "", tex)  # fences of MathML grow by themselves
    tex = re.sub(r"\\([td]?frac)(\d)(\d)", r"\\\1{\2}{\3}", tex)  # docutils reads the digits as one number
    try:
        return str(latex2mathml.tex2mathml(tex, as_block=is_block))
    except (MathError, SyntaxError) as error:
        LOGGER.warning("this mathematics cannot be written as MathML: %s", error, location=node)
        return f"<code>{escape(tex)}</code>"


def _visit_inline(self, node):
    self.body.append(_mathml(node.astext(), node, is_block=False))
    raise _skipped()


def _visit_block(self, node):
    tex = node.astext().strip()
    if r"\\" in tex and r"\begin" not in tex:
        tex = rf"\begin{{aligned}}{tex}\end{{aligned}}"
    self.body.append(f'<div class="math-block">{_mathml(tex, node, is_block=True)}</div>')
    raise _skipped()


def _skipped():
    from docutils import nodes

    return nodes.SkipNode()


def _copy_font(app, error):
    """STIX Two Math, which is free to give on (SIL Open Font License), beside the pages."""
    if error is None and app.builder.format == "html":
        import ziamath

        source = Path(ziamath.__file__).parent / "fonts" / "STIXTwoMath-Regular.ttf"
        target = Path(app.outdir) / "_static" / "STIXTwoMath.woff"
        if not target.exists():
            from fontTools.ttLib import TTFont

            font = TTFont(source)
            font.flavor = "woff"
            font.save(target)


def setup(app):
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    app.config.html_math_renderer = "mathml"
    app.connect("build-finished", _copy_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
