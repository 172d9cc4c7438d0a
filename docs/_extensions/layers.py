"""The picture of the architecture, drawn from the layers that ``tests/test_layers.py`` checks."""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
BESIDE = {"diagnostics": (3, 9), "targets": (1, 1)}
"""What stands beside the layers, each with the first and the last layer at its side."""
WIDTH, HEIGHT, LEFT, TOP = 520, 34, 10, 10


def layers() -> list[list[str]]:
    """Names in each layer, from the base down."""
    tree = ast.parse((ROOT / "tests" / "test_layers.py").read_text(encoding="utf-8"))
    names: dict = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id in ("BASE", "LAYERS"):
            names[node.targets[0].id] = eval(compile(ast.Expression(node.value), "layers", "eval"), dict(names))
    return [sorted(layer) for layer in names["LAYERS"]]


def _box(x: float, y: float, width: float, height: float, text: str, colour: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{colour}" stroke="#555"/>'
        f'<text x="{x + width / 2}" y="{y + height / 2}" text-anchor="middle" dominant-baseline="central">{text}</text>'
    )


def picture() -> str:
    """The layers as boxes, each on those that it may import."""
    rows, step = layers(), HEIGHT + 6
    parts = []
    for i, names in enumerate(rows):
        parts.append(_box(LEFT, TOP + i * step, WIDTH, HEIGHT, " · ".join(names), "#dcecf7"))
    for name, (first, last) in BESIDE.items():
        height = (last - first) * step + HEIGHT
        parts.append(_box(LEFT + WIDTH + 12, TOP + first * step, 130, height, name, "#fbe6d4"))
    width, height = 2 * LEFT + WIDTH + 142, 2 * TOP + len(rows) * step + 22
    note = f'<text x="{LEFT}" y="{height - 12}" fill="#555">A part imports from those above it.</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}{note}</svg>"
    )


def setup(app):
    """Called by Sphinx."""
    (Path(app.srcdir) / "_static" / "layers.svg").write_text(picture(), encoding="utf-8")
    return {"parallel_read_safe": True}
