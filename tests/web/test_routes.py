import pytest

from pgtrial.web.routes import STATIC, Kind, find_route, read_static

ID = "0123456789abcdef"
OTHER = "fedcba9876543210"


@pytest.mark.parametrize(
    ("target", "kind", "ids"),
    [
        ("/", Kind.PAGE, ()),
        ("/?x=1", Kind.PAGE, ()),
        ("/compare?a=1&b=2", Kind.PAGE, ()),
        (f"/experiments/{ID}", Kind.PAGE, (ID,)),
        ("/api/experiments", Kind.LIST, ()),
        (f"/api/experiments/{ID}", Kind.ONE, (ID,)),
        (f"/api/compare?a={ID}&b={OTHER}", Kind.COMPARISON, (ID, OTHER)),
        (f"/api/compare?a={ID}", Kind.COMPARISON, ()),
        (f"/api/compare?a={ID}&b=../{OTHER}", Kind.COMPARISON, ()),
        ("/events", Kind.LIST_EVENTS, ()),
        (f"/events/{ID}", Kind.ONE_EVENTS, (ID,)),
        (f"/reports/{ID}", Kind.REPORT, (ID,)),
    ],
)
def test_what_is_there_is_found(target: str, kind: Kind, ids: tuple[str, ...]) -> None:
    route = find_route(target)

    assert route is not None
    assert (route.kind, route.ids) == (kind, ids)


@pytest.mark.parametrize(
    "target",
    [
        "",
        "*",
        "//",
        "/..",
        "/static/../access.py",
        "/static/..%2faccess.py",
        "/static/index.html",
        "/static/access.py",
        "/static/",
        "/reports/..",
        "/reports/finished",
        f"/reports/{ID}/",
        f"/reports/{ID}/../x",
        f"/reports/{ID.upper()}",
        f"/reports/{ID}0",
        f"/reports/{ID}\n",
        f"/reports/{ID}%00",
        "http://127.0.0.1/",
        "/api/experiments/",
    ],
)
def test_what_is_not_there_is_not(target: str) -> None:
    assert find_route(target) is None


def test_every_file_of_the_page_is_there() -> None:
    page = read_static("index.html").decode()

    assert all(read_static(name) for name in STATIC)
    for name in ("app.js", "style.css"):
        assert f"/static/{name}" in page


def test_the_page_has_nothing_inline() -> None:
    page = read_static("index.html").decode()

    assert "<style" not in page
    assert " style=" not in page
    assert " on" not in page.replace(" on ", "")
    assert page.count("<script") == page.count('<script type="module" src=') == 1
