"""Wheel and source, each installed in a clean environment, with the README's first example run there.

python tests/release_check.py
"""

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent


def example() -> str:
    """The README's first block of Python, and a line that prints the version."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.search(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)[1]
    return f"{code}\nassert result.is_trusted\nprint('vhmc_jax', vj.__version__, vj.__file__)\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(
            [sys.executable, "-m", "build", "--outdir", folder / "dist", ROOT], check=True, stdout=subprocess.DEVNULL
        )
        archives = sorted((folder / "dist").iterdir(), key=lambda archive: archive.suffix)
        assert [archive.suffix for archive in archives] == [".gz", ".whl"], "a source archive and a wheel"
        script = folder / "example.py"
        script.write_text(example(), encoding="utf-8")
        for archive in archives:
            print(f"== {archive.name}", flush=True)
            home = folder / archive.suffix.removeprefix(".")
            venv.create(home, with_pip=True)
            # Isolated, so that PYTHONPATH does not lead back to the checkout.
            python = [home / "bin" / "python", "-I"]
            subprocess.run([*python, "-m", "pip", "install", "-q", "--disable-pip-version-check", archive], check=True)
            subprocess.run([*python, "-m", "pip", "check"], check=True)
            subprocess.run([*python, script], check=True, cwd=folder)


if __name__ == "__main__":
    main()
