"""Rules for all of src: imports follow the order of layers, class names are unique, every file says what it is for."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import headgate

ROOT = Path(headgate.__file__).parent

# In order: each may import from those before it, and from itself; `docs/architecture.md` explains why.
LAYERS = (
    "outcome",
    "graph",
    "expressions",
    "sql",
    "operators",
    "scheduling",
    "runtime",
    "simulation",
    "spark",
    "explanation",
    "connectors",
    "control",
    "engine",
    "feeder",
    "server",
    "cli",
    "papers",
    "bench",
    "tour",
)

# The command line runs experiments and benches by name, and imports them inside functions only.
LAZY = {("cli", "papers"), ("cli", "bench"), ("cli", "tour")}


def imports(tree: ast.AST, package: str) -> Iterator[tuple[str, bool]]:
    """The headgate modules that a file imports, each with whether the import runs when the file is loaded."""
    inside = {
        child
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.walk(function)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            start = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (start, node.module or "") if part)
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)] if module == "headgate" else [module]
        for name in names:
            if name.startswith("headgate."):
                yield name, node not in inside


def forbidden_imports(path: Path, tree: ast.AST) -> list[str]:
    """The imports in a file that break the order of layers."""
    relative = path.relative_to(ROOT)
    layer = relative.parts[0].removesuffix(".py")
    if layer not in LAYERS:
        return [f"{relative} is in no layer: add it to LAYERS"]
    package = ".".join(("headgate", *relative.parts[:-1]))
    found = []
    for name, at_load in imports(tree, package):
        target = name.split(".")[1]
        if target not in LAYERS:
            continue
        if (layer, target) in LAZY and not at_load:
            continue
        if LAYERS.index(target) > LAYERS.index(layer):
            found.append(f"{relative} imports {name}")
    return found


@cache
def files() -> dict[Path, ast.Module]:
    """Every module of src, parsed."""
    paths = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def test_every_module_can_be_imported() -> None:
    for path in files():
        if path.name != "__main__.py":
            import_module(
                ".".join(("headgate", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
            )


def test_a_file_imports_only_from_layers_before_its_own() -> None:
    found = [line for path, tree in files().items() for line in forbidden_imports(path, tree)]
    assert not found, "\n".join(found)


def test_a_file_says_first_what_it_is_for() -> None:
    silent = [str(path.relative_to(ROOT)) for path, tree in files().items() if not ast.get_docstring(tree)]
    assert not silent, "no docstring in " + ", ".join(silent)


def test_nothing_is_pickled() -> None:
    """A checkpoint is data: opening one never executes what it contains. Spark pickles its own tasks."""
    forbidden = {"pickle", "cloudpickle", "dill", "marshal", "shelve"}
    for path, tree in files().items():
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not forbidden & {name.split(".")[-1] for name in names}, f"{path.relative_to(ROOT)} imports it"


def test_a_public_class_name_means_one_class() -> None:
    where: dict[str, list[str]] = defaultdict(list)
    for path, tree in files().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: paths for name, paths in where.items() if len(paths) > 1}
    assert not twice, "\n".join(f"class {name} is in {', '.join(paths)}" for name, paths in twice.items())


@pytest.mark.parametrize(
    ("file", "text", "wrong"),
    [
        ("graph/x.py", "from headgate.sql import Catalog", True),
        ("graph/x.py", "import headgate.spark.session", True),
        ("graph/x.py", "def f():\n    from headgate.spark import session", True),
        ("graph/x.py", "from headgate import operators", True),
        ("graph/x.py", "from ..sql import Catalog", True),
        ("sql/x.py", "from ..graph import types", False),
        ("sql/x.py", "from headgate.graph.types import INT", False),
        ("sql/x.py", "from headgate.sql.errors import SqlError", False),
        ("cli/x.py", "from headgate.papers import registry", True),
        ("cli/x.py", "def f():\n    from headgate.papers import registry", False),
    ],
)
def test_the_rule_itself(file: str, text: str, wrong: bool) -> None:
    assert bool(forbidden_imports(ROOT / file, ast.parse(text))) == wrong


def test_the_architecture_page_names_every_layer_that_is_there() -> None:
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    there = {p.name.removesuffix(".py") for p in ROOT.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    for layer in there & set(LAYERS) - {"outcome"}:
        assert f"| `{layer}` |" in page, f"docs/architecture.md does not name the layer {layer}"
