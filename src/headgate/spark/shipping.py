"""Ships what executors lack: this package, and the modules of users' functions, as zip files.

Executors need Python with `executor_start.REQUIRED` (and PySpark, which comes with Spark); Headgate itself need not be
installed there.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import io
import os
import py_compile
import sys
import sysconfig
import tempfile
import uuid
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from headgate.spark.executor_start import REQUIRED
from headgate.spark.host_client import host_folder

_PACKAGE = Path(__file__).parents[1]
_INSTALLED = frozenset({"headgate", "pyspark", "py4j", *REQUIRED})
"""Packages that are never shipped as a user's module."""


def package_zip() -> Path:
    """A zip file of this package, from which it can be imported; made once for a version of its files.

    It has the compiled modules beside the source files: another version of Python ignores them.
    """
    files = [path for path in sorted(_PACKAGE.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    stamps = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    key = hashlib.sha256(repr((sys.version, stamps)).encode()).hexdigest()[:16]
    made = host_folder() / f"headgate-{key}.zip"
    if not made.exists():
        content = io.BytesIO()
        # Not compressed: it is read more often than it is sent.
        with zipfile.ZipFile(content, "w") as archive:
            for path in files:
                name = str(path.relative_to(_PACKAGE.parent))
                archive.writestr(zipfile.ZipInfo(name), path.read_bytes())
                if path.suffix == ".py":
                    archive.writestr(zipfile.ZipInfo(f"{name}c"), _compiled(path, name))
        _write(made, content.getvalue())
    return made


def ship_package(spark: Any) -> None:
    """Lets the tasks of a Spark application import this package, wherever they run."""
    context = spark.sparkContext
    package = package_zip()
    if package.name not in context._python_includes:
        context.addPyFile(str(package))


def _compiled(path: Path, name: str) -> bytes:
    """A compiled module that is not compared with its source file (PEP 552)."""
    with tempfile.NamedTemporaryFile(suffix=".pyc") as made:
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(path), made.name, name, doraise=True, invalidation_mode=mode)
        return Path(made.name).read_bytes()


def user_modules(functions: Iterable[str]) -> bytes:
    """A zip file with the modules of functions ("module:function"), and those that they import; empty if there is none.

    A package is taken whole. What is installed (in site-packages, or with Python) is not taken: executors must have it.
    The same modules give the same bytes.
    """
    found: dict[str, Path] = {}
    for function in sorted(functions):
        _collect(function.partition(":")[0].partition(".")[0], found)
    if not found:
        return b""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        # Python finds namespace packages in a zip file only if it names their folders.
        folders = {str(folder) for name in found for folder in PurePosixPath(name).parents if folder.name}
        for folder in sorted(folders):
            if f"{folder}/__init__.py" not in found:
                archive.writestr(zipfile.ZipInfo(f"{folder}/"), b"")
        for name, path in sorted(found.items()):
            archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return content.getvalue()


def make_importable(modules: bytes) -> None:
    """Lets this process import the modules in a zip file of `user_modules`."""
    if not modules:
        return
    path = host_folder() / f"modules-{hashlib.sha256(modules).hexdigest()[:16]}.zip"
    if not path.exists():
        _write(path, modules)
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))
        importlib.invalidate_caches()


def _collect(module: str, found: dict[str, Path]) -> None:
    """Adds the files of a module or package, by their names in the zip file, and of all that it imports."""
    files = _files(module)
    if files.keys() <= found.keys():
        return
    found.update(files)
    for path in files.values():
        if path.suffix == ".py":
            for imported in _imports(path):
                _collect(imported, found)


def _files(module: str) -> dict[str, Path]:
    """The files of a module; none if executors must have it, or if it does not exist."""
    if module in _INSTALLED or module in sys.stdlib_module_names or module == "__main__":
        return {}
    here = os.getcwd()
    # Functions are found in the working directory, too (`sql/python_functions.py`).
    sys.path.insert(0, here)
    try:
        spec = importlib.util.find_spec(module)
        if spec is None:
            return {}
        folders = [Path(folder).resolve() for folder in spec.submodule_search_locations or ()]
    except (ImportError, ValueError):
        return {}
    finally:
        with suppress(ValueError):
            sys.path.remove(here)
    if spec.origin is None:
        # A namespace package: any folder may be one, so only its modules are taken.
        each = [(folder, path) for folder in folders if not _installed(folder) for path in sorted(folder.rglob("*.py"))]
        return {
            f"{module}/{path.relative_to(folder)}": path
            for folder, path in each
            if not _installed(path) and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        }
    origin = Path(spec.origin).resolve()
    if origin.suffix != ".py" or _installed(origin):
        return {}
    if origin.name != "__init__.py":
        return {origin.name: origin}
    return {
        f"{module}/{path.relative_to(origin.parent)}": path
        for path in origin.parent.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def _installed(path: Path) -> bool:
    """Whether a file or folder belongs to Python or to an installed package."""
    installed = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    if any(path.is_relative_to(Path(folder).resolve()) for folder in installed if folder):
        return True
    return bool({"site-packages", "dist-packages"} & set(path.parts))


def _imports(path: Path) -> Iterator[str]:
    """The modules that a source file imports, without those of its own package."""
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def _write(path: Path, data: bytes) -> None:
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}")
    unfinished.write_bytes(data)
    unfinished.rename(path)
