"""The page in a real browser: everything that a user does there, and how it looks on a laptop and on a phone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.arriving import arrive_json
from tests.server.process import ServerProcess, server_process

pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE = 200_000
"""Milliseconds to wait for what Spark does, on a busy machine."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
    switches = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=switches)
        yield browser
        browser.close()


class Page:
    """The page of a server, and what a user does on it."""

    def __init__(self, browser: Any, url: str, dark: bool = False, width: int = 1366, height: int = 900) -> None:
        viewport = {"width": width, "height": height}
        self.context = browser.new_context(color_scheme="dark" if dark else "light", viewport=viewport)
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.outside: list[str] = []
        self.page.on("console", lambda m: self.problems.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda r: None if r.url.startswith(url) else self.outside.append(r.url))
        self.page.on("dialog", lambda dialog: dialog.accept())
        self.page.goto(url)
        self.page.wait_for_selector(".pill.running")

    def execute(self, sql: str) -> str:
        """Writes into the editor and executes with the keyboard; returns what the page says."""
        self.page.fill("#sql", sql)
        self.page.press("#sql", "Control+Enter")
        self.page.wait_for_selector("#answer.good, #answer.bad")
        return str(self.page.inner_text("#answer"))

    def state_of(self, query: str, state: str) -> None:
        """Waits until the table shows a query in a state."""
        self.page.wait_for_selector(f'#queries tr:has(button:text-is("{query}")) .state-{state}')


def test_what_a_user_does(chromium: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with server_process(tmp_path) as server:
        user = Page(chromium, server.url)
        page = user.page
        said = user.execute(
            "CREATE CLASS critical WITH (priority = 6);\n"
            "CREATE STREAM s (v INT, k STRING) USING json OPTIONS (path 'in');\n"
            "CREATE QUERY high CLASS critical AS SELECT v, k FROM s WHERE v > 5;"
        )
        assert "query high created" in said
        user.state_of("high", "running")

        # Results appear as rows arrive.
        arrive_json(tmp_path / "in" / "0.json", [{"v": n, "k": "a<b>"} for n in range(10)])
        page.wait_for_selector('#results td:text-is("9")')
        assert page.locator("#results tbody tr").count() == 4
        assert page.inner_text("#results-title") == "Results of high"
        assert page.locator('#results td:text-is("a<b>")').count() == 4
        assert page.locator("#graph .operator").count() == 1

        # Another policy: the chart changes and marks the moment.
        page.wait_for_selector('#latency path.line[d^="M"]', state="attached")
        assert page.locator("#policies .flag.policy").count() == 0
        page.select_option("#policy", "chain")
        page.wait_for_selector("#policies .flag.policy", state="attached")
        page.wait_for_selector("#latency .mark.policy", state="attached")
        page.wait_for_selector('#log li:has-text("policy cqc → chain")')
        assert server.client.policy == "chain"

        # A wrong statement is marked where it is wrong.
        said = user.execute("CREATE QUERY wrong AS\nSELECT v, nope FROM s")
        assert said.startswith("line 2, column 11: unknown column nope")
        assert page.inner_text("#marks mark") == "nope"
        assert page.inner_text("#gutter .wrong").strip() == "2"
        assert page.evaluate("document.getElementById('sql').selectionStart") == len(
            "CREATE QUERY wrong AS\nSELECT v, "
        )
        assert page.locator("#queries tbody tr").count() == 1

        # Objectives.
        page.fill('#objectives input[name="delay"]', "0.7")
        page.fill('#objectives input[name="output"]', "0.2")
        page.click("#objectives button.main")
        page.wait_for_selector("#objectives-hint.missed")
        page.fill('#objectives input[name="output"]', "0.3")
        page.click("#objectives button.main")
        page.wait_for_selector('#objectives-hint:has-text("set: delay 0.7, output 0.3")')
        assert server.client.objectives == {"delay": 0.7, "output": 0.3}

        # A query fails; its error is read, and it is tried again.
        user.execute(
            "CREATE FUNCTION picky(v INT) RETURNS INT AS 'tests.spark.functions:picky';\n"
            "CREATE QUERY fragile AS SELECT picky(v) AS p FROM s;"
        )
        arrive_json(tmp_path / "in" / "1.json", [{"v": 1000, "k": "x"}, "{broken"])
        user.state_of("fragile", "failed")
        assert "row 1000 is one too many" in page.inner_text("#queries tr.error")
        assert "row 1000 is one too many" in page.inner_text("#results-error")
        page.wait_for_selector('#letters td:text-is("{broken")')
        page.click('button[aria-label="Retry fragile"]')
        user.state_of("fragile", "running")
        arrive_json(tmp_path / "in" / "2.json", [{"v": 77, "k": "y"}])
        page.wait_for_selector('#results td:text-is("77")')

        # Paused, resumed, stopped.
        page.click('button[aria-label="Pause high"]')
        user.state_of("high", "paused")
        page.click('button[aria-label="Resume high"]')
        user.state_of("high", "running")
        page.click('#queries button:text-is("high")')
        page.click('button[aria-label="Stop high"]')
        page.wait_for_selector('#queries button:text-is("high")', state="detached")
        page.wait_for_selector('#results-title:text-is("Results")')
        assert list(server.client.queries) == ["fragile"]
        # The browser itself notes the two refusals above.
        assert [each for each in user.problems if "status of 400" not in each] == []
        assert (len(user.problems), user.outside) == (2, [])
        assert "Traceback" not in server.output


def test_the_keyboard_reaches_everything(chromium: Any, tmp_path: Path) -> None:
    with server_process(tmp_path) as server:
        server.await_running()
        server.client.execute(
            "CREATE STREAM t (timestamp TIMESTAMP, value BIGINT) USING rate;CREATE QUERY q AS SELECT value FROM t"
        )
        user = Page(chromium, server.url)
        user.state_of("q", "running")
        page = user.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        reached = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.dataset.key || ''"))
        assert {"execute", "check", "examples", "name q", "pause q", "drop q", "policy", "theme"} <= reached
        # In the graph, too.
        page.focus('#graph [data-query="q"]')
        page.keyboard.press("Enter")
        page.wait_for_selector('#results-title:text-is("Results of q")')
        page.wait_for_selector("#results tbody tr")
        assert user.problems == []


def test_it_asks_for_the_token(chromium: Any, tmp_path: Path) -> None:
    with server_process(tmp_path, "--token", "0123456789abcdef") as server:
        context = chromium.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(server.url)
        page.wait_for_selector("#login[open]")
        page.fill("#token", "wrong-wrong-wrong")
        page.click("#login button")
        page.wait_for_selector("#login[open]")
        page.fill("#token", "0123456789abcdef")
        page.click("#login button")
        page.wait_for_selector(".pill.running")
        assert "0123456789abcdef" not in page.url + server.output


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(("width", "height"), [(1366, 900), (390, 844)])
def test_it_fits_the_screen(
    chromium: Any, busy_server: ServerProcess, tmp_path: Path, dark: bool, width: int, height: int
) -> None:
    """Pictures are written to HEADGATE_SCREENSHOTS, if that is set, to be looked at."""
    user = Page(chromium, busy_server.url, dark, width, height)
    user.state_of("evens", "running")
    user.page.click('#queries button:text-is("evens")')
    user.page.wait_for_selector("#results tbody tr")
    user.page.wait_for_selector("#latency path.line")
    assert user.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    folder = os.environ.get("HEADGATE_SCREENSHOTS")
    if folder:
        name = f"{'dark' if dark else 'light'}-{width}.png"
        user.page.screenshot(path=str(Path(folder) / name), full_page=True)
    assert (user.problems, user.outside) == ([], [])


@pytest.fixture(scope="module")
def busy_server(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("busy")
    with server_process(folder) as server:
        server.await_running()
        server.client.execute(
            """CREATE CLASS critical WITH (priority = 6); CREATE CLASS report WITH (priority = 1);
            CREATE STREAM ticks (timestamp TIMESTAMP, value BIGINT, WATERMARK FOR timestamp AS timestamp)
            USING rate OPTIONS (rowsPerSecond '200');
            CREATE QUERY evens CLASS critical AS SELECT timestamp, value FROM ticks WHERE value % 2 = 0;
            CREATE QUERY hundreds CLASS critical AS SELECT value, value * 2 AS twice FROM ticks WHERE value % 100 = 0;
            CREATE QUERY counts CLASS report AS SELECT window(timestamp, '2 seconds') AS w, count(*) AS n FROM ticks
            GROUP BY window(timestamp, '2 seconds')"""
        )
        yield server
