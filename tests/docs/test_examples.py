"""The examples in README and docs work: SQL is accepted, Python passes, commands print what the page shows.

All `sql` blocks of a page form one script, all `python` blocks one program. A `sql refused` block holds statements,
each below a comment with the error message that it must give. In a `console` block, `…` stands for any text.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from headgate.cli.main import run
from headgate.connectors.registry import connectors
from headgate.sql import Catalog, SqlError
from tests.oracle.cases import statements_of

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
page_by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def blocks(page: Path, info: str) -> list[str]:
    """The fenced blocks of a page with this info string."""
    return re.findall(rf"^```{re.escape(info)}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


@page_by_page
def test_sql_blocks_register_and_refusals_are_worded_so(page: Path) -> None:
    catalog = Catalog(connectors=connectors())
    for block in blocks(page, "sql"):
        catalog.execute(block, file=page.name)
    for block in blocks(page, "sql refused"):
        for statement in statements_of(block):
            comment, _, text = statement.partition("\n")
            with pytest.raises(SqlError) as refusal:
                catalog.execute(text)
            error = refusal.value
            assert comment == f"-- {error.line}:{error.column}: {error.message}"


@page_by_page
def test_python_blocks_pass(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    program = "\n".join(blocks(page, "python"))
    exec(compile(program, page.name, "exec"), {"__name__": "example"})


@page_by_page
def test_console_blocks_print_what_they_show(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, shown = part.partition("\n")
            words = shlex.split(command)
            assert words[0] == "headgate", f"{page.name}: only headgate commands are run, not {command}"
            with pytest.raises(SystemExit):
                run(words[1:])
            printed = capsys.readouterr().out
            wanted = re.escape(shown).replace("…\\\n", "(.*\n)*?").replace("…", ".*")
            assert re.fullmatch(wanted, printed), f"{command} printed\n{printed}"


@page_by_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


@page_by_page
def test_files_that_a_page_names_are_there(page: Path) -> None:
    places = [ROOT, ROOT / "src" / "headgate"]
    for name in re.findall(r"`([\w/]+\.py)`", page.read_text(encoding="utf-8")):
        found = any((place / name).exists() for place in places) or (
            "/" not in name and any(ROOT.rglob(f"src/**/{name}"))
        )
        assert found, f"{page.name} names {name}, which is not there"


def test_there_are_examples() -> None:
    assert blocks(ROOT / "README.md", "python")
    assert len(blocks(ROOT / "docs" / "sql.md", "sql")) >= 6
