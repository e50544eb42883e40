"""A Python for Spark's workers without Headgate: what a node of a cluster has at least."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from headgate.spark.executor_start import REQUIRED


def workers_python(folder: Path, without: tuple[str, ...] = ()) -> str:
    """Makes an environment with the packages that hosts need, except some, and returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    installed = Path(sysconfig.get_path("platlib"))
    for name in REQUIRED:
        # Shared libraries of a wheel are beside its package.
        for found in (installed / name, installed / f"{name}.libs"):
            if name not in without and found.exists():
                (packages / found.name).symlink_to(found)
    return str(python)
