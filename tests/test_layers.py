"""Each layer imports only from layers before it; `docs/architecture.md` tells why."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate

ROOT = Path(headgate.__file__).parent

# In order: each may import from those before it, and from itself.
LAYERS = (
    "outcome",
    "graph",
    "sql",
    "operators",
    "scheduling",
    "runtime",
    "simulation",
    "spark",
    "control",
    "engine",
    "feeder",
    "server",
    "cli",
    "papers",
    "bench",
)

# The command line runs experiments and benches by name; it imports them only when asked to.
LAZY = {("cli", "papers"), ("cli", "bench")}


def imports(tree: ast.AST, package: str) -> Iterator[tuple[str, bool]]:
    """The modules of headgate that a file imports, and whether it does so when it is loaded."""
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


def offences(path: Path, text: str) -> list[str]:
    """What in a file breaks the rule."""
    relative = path.relative_to(ROOT)
    layer = relative.parts[0].removesuffix(".py")
    package = ".".join(("headgate", *relative.parts[:-1]))
    found = []
    for name, at_load in imports(ast.parse(text), package):
        target = name.split(".")[1]
        if target not in LAYERS:
            continue
        if (layer, target) in LAZY and not at_load:
            continue
        if LAYERS.index(target) > LAYERS.index(layer):
            found.append(f"{relative} imports {name}")
    return found


FILES = sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_imports_only_from_layers_before_its_own(path: Path) -> None:
    assert path.relative_to(ROOT).parts[0].removesuffix(".py") in LAYERS, f"{path}: add its layer to LAYERS"
    assert not offences(path, path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_says_first_what_it_is_for(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), f"{path} has no docstring"


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
    assert bool(offences(ROOT / file, text)) == wrong


def test_the_architecture_page_names_every_layer_that_is_there() -> None:
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    there = {p.name.removesuffix(".py") for p in ROOT.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    for layer in there & set(LAYERS) - {"outcome"}:
        assert f"| `{layer}` |" in page, f"docs/architecture.md does not name the layer {layer}"
