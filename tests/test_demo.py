"""The README's first command runs, in a process of its own, with few draws."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_the_demo_runs(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "demo.py"), "--samples", "40", "--pictures", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "VHMC, told a box" in done.stdout
    assert (tmp_path / "demo.png").exists()
