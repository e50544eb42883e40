"""The tour's screen fits a terminal, is redrawn in place, and becomes lines in a file."""

from __future__ import annotations

import io
import re

import pytest

from headgate.tour.screen import Screen, SideView, TourView, draw, line, sparkline

CLASSES = ("critical", "dashboard", "report")


def view(events: int = 3) -> TourView:
    seconds = range(30)
    ages = {cls: [None, None, *(0.1 * (n + 1) for n in seconds)] for cls in CLASSES}
    plain = SideView(
        "plain Structured Streaming",
        "21 streaming queries",
        "done",
        30.0,
        30.0,
        [1000.0] * 30,
        ages,
        dict.fromkeys(CLASSES, 8.4),
    )
    ours = SideView("Headgate", "one Spark job, policy cqc", "runs", 17.0, 30.0)
    ours.rates = [900.0, 6_300.0, 1_234.0]
    ours.ages = {cls: [0.2, 0.4] for cls in CLASSES}
    ours.means = {"critical": 0.21, "dashboard": 1.2, "report": None}
    ours.waiting, ours.queued_bytes = [0.0, 12_345.0], 3 << 20
    said = [
        f"0:{n:02d}  something happens that takes rather many words to say, more than a line has" for n in range(events)
    ]
    return TourView(plain, ours, CLASSES, "Headgate tour: 21 queries", 72.0, "http://127.0.0.1:8080", said)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 23), (60, 16), (200, 60), (40, 10)])
def test_the_screen_fits(width: int, height: int) -> None:
    lines = draw(view(events=40), width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_the_screen_shows_what_there_is() -> None:
    text = "\n".join(draw(view()))
    assert "1:12" in text
    assert "17 of 30 s █████░░░░░" in text
    assert re.search(r"critical +.* 8\.4 s .* 210 ms +40x", text)
    assert re.search(r"report +.* 8\.4 s .* - *$", text, re.M)
    assert "12,345 rows, 3 MiB" in text
    assert "page: http://127.0.0.1:8080" in text
    assert "0:02  something happens" in text


def test_before_anything_has_happened() -> None:
    empty = TourView(SideView("plain"), SideView("Headgate"), CLASSES)
    assert any("waits" in line for line in draw(empty))


def test_a_small_screen_keeps_the_newest_events() -> None:
    shown = [text for text in draw(view(events=40)) if "something" in text]
    assert shown[-1].startswith("0:39")
    assert len(shown) < 20


def test_ascii_only() -> None:
    "\n".join(draw(view(), plain_text=True)).encode("ascii")


def test_a_line_for_a_file() -> None:
    shown = view()
    assert line(shown, shown.headgate) == (
        "Headgate 17 of 30 s | 1,234 rows/s | critical 210 ms | dashboard 1.2 s | report - | waiting 12,345 rows"
    )


@pytest.mark.parametrize("values", [[], [None], [0.0], [None, 5.0, None], [1e-9, 1e9]])
def test_sparklines_have_their_width(values: list[float | None]) -> None:
    for scale in (None, (0.1, 10.0)):
        assert len(sparkline(values, 7, logarithm=scale)) == 7


class Terminal(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


def screen_of(text: str, height: int) -> list[str]:
    """What a terminal shows after this text: understands the few sequences that the screen uses."""
    lines, row = [""] * height, 0
    for part in re.findall(r"\033\[\?25[lh]|\033\[\d*[AKJ]|\n|[^\033\n]+", text):
        if part == "\n":
            row += 1
        elif part.startswith("\033[") and part.endswith("A"):
            row -= int(part[2:-1])
        elif part == "\033[J":
            lines[row:] = [""] * (height - row)
        elif not part.startswith("\033"):
            lines[row] = part
    return [text for text in lines if text]


def test_a_terminal_is_redrawn_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    shown, out = view(), Terminal()
    screen = Screen(shown, out)
    for number in range(50):
        shown.headgate.elapsed = float(number)
        screen.say(f"event {number}")
    screen.close()
    assert screen_of(out.getvalue(), 24) == [text for text in draw(shown, 80, 23) if text]
    assert out.getvalue().endswith("\033[?25h")


def test_a_file_gets_each_event_once() -> None:
    shown, out = view(events=0), io.StringIO()
    screen = Screen(shown, out)
    screen.say("one")
    screen.show(shown.headgate)
    screen.say("two")
    screen.close()
    assert out.getvalue() == "1:12  one\n1:12  two\n"
