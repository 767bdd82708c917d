from pathlib import Path

import pytest
from jinja2 import Environment

from pgtrial.report import html
from pgtrial.report.html import template_environment

make = template_environment.__wrapped__
NAME = "sections/verdict.html"


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "pgtrial"


@pytest.fixture
def compiled(monkeypatch) -> list[str]:
    """Names of the templates that were put together."""
    names: list[str] = []
    compile_ = Environment.compile

    def note(self, source, name=None, *args, **kwargs):
        names.append(name)
        return compile_(self, source, name, *args, **kwargs)

    monkeypatch.setattr(Environment, "compile", note)
    return names


def test_a_template_is_put_together_once_for_all_processes(cache, compiled):
    for _ in range(3):
        make().get_template(NAME)

    assert compiled == [NAME]
    assert len(list(cache.iterdir())) == 1


def test_a_template_of_another_version_or_with_damage_is_put_together_again(cache, compiled, monkeypatch, tmp_path):
    make().get_template(NAME)
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    make().get_template(NAME)
    assert file.read_bytes() == whole

    monkeypatch.setattr(html, "version", lambda _: "another")
    make().get_template(NAME)

    assert compiled == [NAME] * 3


def test_a_template_whose_text_has_changed_is_put_together_again(cache, compiled, monkeypatch, tmp_path):
    monkeypatch.setattr(html, "_HERE", tmp_path)
    template = tmp_path / "greeting.html"
    for text in ("Hello {{ name }}", "Hi {{ name }}"):
        template.write_text(text, encoding="utf-8")

        assert make().get_template("greeting.html").render(name="you") == text.replace("{{ name }}", "you")
    assert compiled == ["greeting.html"] * 2
