"""Who may call the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.server.access import Access, AccessError, given_token
from tests.server.serving import service, serving

TOKEN = "0123456789abcdef0123"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org"])
def test_elsewhere_than_on_loopback_a_token_is_needed(host: str) -> None:
    with pytest.raises(AccessError, match=f"{host} can be reached from other machines, and there is no token"):
        Access(host)
    Access(host, TOKEN)


def test_tokens_that_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n")
    assert given_token(None, str(file)) == TOKEN
    assert given_token(None, None) is None
    for token, path, message in (
        ("short", None, "at least 16"),
        ("with a\nline" * 9, None, "printable"),
        (TOKEN, str(file), "not both"),
        (None, str(tmp_path / "no"), "no such file"),
    ):
        with pytest.raises(AccessError, match=message):
            given_token(token, path)


HERE = "localhost:8642"


@pytest.mark.parametrize(
    ("token", "headers", "status"),
    [
        (None, {"host": HERE}, None),
        (None, {"host": "127.0.0.1:8642"}, None),
        (None, {"host": "[::1]:8642"}, None),
        (None, {"host": "LOCALHOST"}, None),
        # A name of another site that was made to resolve to this machine.
        (None, {"host": "evil.example:8642"}, 421),
        (None, {"host": "localhost.evil.example"}, 421),
        (None, {"host": "evil.example@localhost"}, 421),
        (None, {"host": ""}, 421),
        (None, {}, 421),
        # A page of another site.
        (None, {"host": HERE, "origin": "http://localhost:8642"}, None),
        (None, {"host": HERE, "origin": "http://localhost:9999"}, 403),
        (None, {"host": HERE, "origin": "https://evil.example"}, 403),
        (None, {"host": HERE, "origin": "null"}, 403),
        (None, {"host": HERE, "origin": "http://[::1"}, 403),
        (None, {"host": HERE, "origin": ""}, 403),
        (None, {"host": "[::1"}, 421),
        (None, {"host": HERE, "sec-fetch-site": "cross-site"}, 403),
        (None, {"host": HERE, "sec-fetch-site": "same-site"}, 403),
        (None, {"host": HERE, "sec-fetch-site": "same-origin"}, None),
        (TOKEN, {"host": "db.example"}, 401),
        (TOKEN, {"host": "db.example", "authorization": f"Bearer {TOKEN}"}, None),
        (TOKEN, {"host": "db.example", "authorization": f"bearer  {TOKEN} "}, None),
        (TOKEN, {"host": "db.example", "authorization": f"Basic {TOKEN}"}, 401),
        (TOKEN, {"host": "db.example", "authorization": TOKEN}, 401),
        (TOKEN, {"host": "db.example", "authorization": f"Bearer {TOKEN}x"}, 401),
        (TOKEN, {"host": "db.example", "authorization": f"Bearer {TOKEN[:-1]}"}, 401),
        (TOKEN, {"host": "db.example", "authorization": "Bearer "}, 401),
        (TOKEN, {"host": HERE, "origin": "https://evil.example", "authorization": f"Bearer {TOKEN}"}, 403),
    ],
)
def test_requests(token: str | None, headers: dict[str, str], status: int | None) -> None:
    refusal = Access("127.0.0.1", token).refusal(headers, public=False)
    assert (refusal.status if refusal else None) == status
    assert refusal is None or TOKEN not in refusal.message


def test_everything_but_the_page_needs_the_token(tmp_path: Path) -> None:
    right = {"Authorization": f"Bearer {TOKEN}"}
    with serving(service(tmp_path), TOKEN) as http:
        paths = http.get("/openapi.json", right).json()["paths"]
        operations = [(method.upper(), path) for path, each in paths.items() for method in each]
        assert len(operations) > 20
        for method, path in operations:
            address = path.replace("{name}", "q")
            answer = http.request(method, address)
            assert answer.status == (200 if path == "/healthz" else 401), path
            assert answer.status == 200 or answer.headers["www-authenticate"] == "Bearer"
            wrong = http.request(method, address, headers={"Authorization": "Bearer wrong"})
            assert wrong.status == answer.status
        for path in ("/", "/page.css", "/page.js"):
            assert http.get(path).status == 200
        assert http.get("/api/status", right).status == 200


def test_a_page_of_another_site_can_do_nothing(tmp_path: Path) -> None:
    made = service(tmp_path)
    with serving(made) as http:
        sql = {"sql": "CREATE CLASS c WITH (priority = 2)"}
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert http.request("POST", "/api/statements", sql, headers).status in (403, 421)
        # A form needs no permission to send these types, and they are refused.
        for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            answer = http.request("POST", "/api/statements", sql, {"Content-Type": media})
            assert answer.status == 415
        assert "c" not in made.engine.catalog.classes
        answer = http.get("/")
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "access-control-allow-origin" not in answer.headers
