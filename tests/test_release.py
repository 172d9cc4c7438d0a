"""What a release says about itself agrees."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_versions_agree():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    sections = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sections[:2] == ["Unreleased", version]
