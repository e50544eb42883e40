"""What is shipped to executors: the package as a zip file, and the modules of users' functions."""

from __future__ import annotations

import io
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from headgate.spark.shipping import package_zip, user_modules

IMPORT = """
import sys
sys.path[:0] = [{zip!r}, {packages!r}]
import headgate.spark.supervision, headgate.connectors.registry, headgate.spark.task
assert headgate.spark.task.__file__.startswith({zip!r}), headgate.spark.task.__file__
assert headgate.spark.task.__cached__.endswith(".pyc") or headgate.spark.task.__file__.endswith(".pyc")
print(sorted({{name.partition(".")[0] for name in sys.modules}} & {{"sqlglot", "typer", "rich", "matplotlib"}}))
"""


def test_a_host_runs_from_the_zip_file_and_needs_neither_sql_nor_the_command_line() -> None:
    # -I -S: neither the environment nor an installed Headgate.
    code = IMPORT.format(zip=str(package_zip()), packages=sysconfig.get_path("platlib"))
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_the_zip_file_is_made_once() -> None:
    made = package_zip()
    before = made.stat().st_mtime_ns
    assert package_zip() == made
    assert made.stat().st_mtime_ns == before


def _names(modules: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(modules)) as archive:
        return archive.namelist()


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Modules of a user: one imports another one, a package, and what is installed."""
    (tmp_path / "shipped_main.py").write_text(
        "import json\nimport pyarrow\nimport sqlglot\nimport shipped_other\nfrom shipped_package.inner import x\n"
        "def f(v):\n    import shipped_late\n    return v\n"
    )
    (tmp_path / "shipped_other.py").write_text("import shipped_main\n")
    (tmp_path / "shipped_late.py").write_text("")
    (tmp_path / "unrelated.py").write_text("")
    package = tmp_path / "shipped_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("from . import other\nx = 1\n")
    (package / "other.py").write_text("")
    (package / "words.txt").write_text("data")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_modules_are_shipped_with_those_that_they_import_and_without_what_is_installed(written: Path) -> None:
    modules = user_modules(["shipped_main:f"])
    assert _names(modules) == [
        "shipped_late.py",
        "shipped_main.py",
        "shipped_other.py",
        "shipped_package/__init__.py",
        "shipped_package/inner.py",
        "shipped_package/other.py",
        "shipped_package/words.txt",
    ]
    assert user_modules(["shipped_main:f", "shipped_package.inner:x"]) == modules
    (written / "shipped_late.py").write_text("changed = 1\n")
    assert user_modules(["shipped_main:f"]) != modules


def test_installed_functions_need_no_shipping() -> None:
    assert user_modules(["operator:add", "pyarrow.compute:add", "headgate.spark.task:carry", "nowhere:f"]) == b""


def test_another_process_imports_what_was_shipped(written: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("sent") / "modules"
    file.write_bytes(user_modules(["shipped_package.inner:x"]))
    code = (
        "from pathlib import Path; from headgate.spark.shipping import make_importable;"
        f"make_importable(Path({str(file)!r}).read_bytes()); import shipped_package.inner as m; print(m.x, m.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/")
    assert done.stdout.startswith("1 "), done.stderr
    assert ".zip/shipped_package" in done.stdout


def test_namespace_packages_are_shipped(written: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Packages without `__init__.py`."""
    (written / "shipped_space" / "deep").mkdir(parents=True)
    (written / "shipped_space" / "risk.py").write_text("from shipped_space.deep.other import g\nf = g\n")
    (written / "shipped_space" / "deep" / "other.py").write_text("import shipped_late\ndef g(v):\n    return 41 + v\n")
    (written / "shipped_space" / "rows.csv").write_text("not a module")
    modules = user_modules(["shipped_space.risk:f"])
    files = [name for name in _names(modules) if not name.endswith("/")]
    assert files == ["shipped_late.py", "shipped_space/deep/other.py", "shipped_space/risk.py"]
    archive = tmp_path_factory.mktemp("zip") / "modules.zip"
    archive.write_bytes(modules)
    code = f"import sys; sys.path[:0] = [{str(archive)!r}]; from shipped_space.risk import f; print(f(1))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "42", done.stderr
