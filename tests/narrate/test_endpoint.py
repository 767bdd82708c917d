import json
import logging

import pytest

from pgtrial.narrate.endpoint import (
    KEY,
    MOST_BYTES,
    OPENAI_KEY,
    OPENAI_URL,
    TRIES,
    URL,
    Answer,
    ChatMessage,
    Endpoint,
    EndpointError,
    EndpointUsageError,
    ask,
    read_endpoint,
)

SECRET = "sk-very-secret-0123456789"
QUESTION = (ChatMessage(role="system", content="rules"), ChatMessage(role="user", content="facts"))


def put(stand_in, *, key: str = SECRET, timeout: float = 5, pauses: list[float] | None = None) -> Answer:
    waited = [] if pauses is None else pauses
    return ask(Endpoint(url=stand_in.url, key=key), QUESTION, model="tiny", timeout=timeout, pause=waited.append)


def fail(stand_in, **more) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        put(stand_in, **more)
    return caught.value


def all_of(error: EndpointError) -> str:
    return "\n".join((str(error), error.message, error.detail, error.hint, repr(error)))


def test_the_question_is_one_post_of_two_messages(stand_in) -> None:
    stand_in.say("All is well.")

    answer = put(stand_in)

    assert answer == Answer(text="All is well.", model="stand-in")
    ((path, headers, body),) = stand_in.requests
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {SECRET}"
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body) == {
        "model": "tiny",
        "messages": [{"role": "system", "content": "rules"}, {"role": "user", "content": "facts"}],
        "stream": False,
    }


def test_without_a_key_there_is_no_header(stand_in) -> None:
    stand_in.say("Yes.")
    put(stand_in, key="")

    assert "Authorization" not in stand_in.requests[0][1]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "In "}, {"type": "text", "text": "parts."}], "In parts."),
        ("<think>165 or 164?</think>\n\nIt is faster.", "It is faster."),
    ],
)
def test_text_in_parts_and_behind_thoughts_is_found(stand_in, content, text) -> None:
    stand_in.reply(json.dumps({"choices": [{"message": {"content": content}}]}).encode())

    assert put(stand_in).text == text


def test_a_cut_answer_says_so(stand_in) -> None:
    stand_in.say("It is", finish_reason="length")

    assert put(stand_in).is_cut


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>hello</html>", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"{}", "no text from a model"),
        (b"[]", "no text from a model"),
        (b'{"choices": []}', "no text from a model"),
        (b'{"choices": [{"message": null}]}', "no text from a model"),
        (b'{"choices": [{"message": {"content": null}}]}', "empty answer"),
        (b'{"choices": [{"message": {"content": "  "}}]}', "empty answer"),
        (b'{"choices": [{"message": {"content": [1, 2]}}]}', "no text from a model"),
    ],
)
def test_an_answer_that_is_none_is_one_clear_error(stand_in, body: bytes, message: str) -> None:
    stand_in.reply(body)
    error = fail(stand_in)

    assert message in error.message
    assert error.exit_code == 1
    assert len(stand_in.requests) == 1


def test_an_answer_that_is_too_large_is_not_read_to_its_end(stand_in) -> None:
    stand_in.reply(b" " * (MOST_BYTES + 1000))

    assert f"larger than {MOST_BYTES} bytes" in fail(stand_in).message


def test_the_name_that_a_server_gives_its_model_is_cut(stand_in) -> None:
    stand_in.reply(json.dumps({"model": "m" * 5000, "choices": [{"message": {"content": "Yes."}}]}).encode())

    assert len(put(stand_in).model) == 80


def test_an_answer_that_is_too_short_is_tried_again(stand_in) -> None:
    stand_in.reply(b"{", Content_Length="100")
    stand_in.say("Whole.")

    assert put(stand_in).text == "Whole."


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "answers with an error (HTTP 400)"),
        (401, "refuses the key (HTTP 401)"),
        (403, "refuses the key (HTTP 403)"),
        (404, 'has no model "tiny"'),
        (422, "(HTTP 422)"),
    ],
)
def test_errors_that_will_not_pass_are_told_at_once(stand_in, status: int, message: str) -> None:
    stand_in.reply(b'{"error": {"message": "because"}}', status)
    error = fail(stand_in)

    assert message in error.message
    assert len(stand_in.requests) == 1
    assert error.exit_code == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_errors_that_may_pass_are_tried_again_a_bounded_number_of_times(stand_in, status: int) -> None:
    stand_in.reply(b'{"error": {"message": "busy"}}', status)
    pauses: list[float] = []
    error = fail(stand_in, pauses=pauses)

    assert f"HTTP {status}" in error.message
    assert error.detail == "busy"
    assert len(stand_in.requests) == TRIES
    assert pauses == [1.0, 2.0]


def test_a_second_try_may_succeed(stand_in) -> None:
    stand_in.reply(b"", 503)
    stand_in.say("Now.")

    assert put(stand_in).text == "Now."


@pytest.mark.parametrize(("asked", "paused"), [("7", 7.0), ("86400", 30.0), ("soon", 1.0), ("-5", 1.0), ("²", 1.0)])
def test_a_server_may_ask_for_a_pause_within_bounds(stand_in, asked: str, paused: float) -> None:
    stand_in.reply(b"", 429, Retry_After=asked.encode("utf-8").decode("latin-1"))
    stand_in.say("Now.")
    pauses: list[float] = []
    put(stand_in, pauses=pauses)

    assert pauses == [paused]


def test_a_redirection_is_not_followed(stand_in) -> None:
    stand_in.reply(b"", 307, Location=f"{stand_in.url}/elsewhere")
    error = fail(stand_in)

    assert "redirects to another address, which is not followed (HTTP 307)" in error.message
    assert len(stand_in.requests) == 1


def test_a_silent_endpoint_is_given_up_after_the_timeout(stand_in) -> None:
    stand_in.reply(b"", X_Wait="yes")
    error = fail(stand_in, timeout=0.2)

    assert "within 0.2 s" in error.message
    assert "--timeout" in error.hint
    assert len(stand_in.requests) == 1


def test_a_slow_answer_is_given_up_by_the_clock(stand_in) -> None:
    stand_in.say("x" * 500_000)
    times = iter(range(1000))
    with pytest.raises(EndpointError, match="did not complete an answer within 1 s"):
        ask(Endpoint(url=stand_in.url), QUESTION, model="tiny", timeout=1, pause=float, clock=lambda: next(times))


def test_an_endpoint_that_hangs_up_is_tried_again(stand_in) -> None:
    stand_in.reply(b"", X_Hang_Up="yes")
    pauses: list[float] = []
    error = fail(stand_in, pauses=pauses)

    assert "cannot be reached" in error.message
    assert len(pauses) == TRIES - 1


def test_nobody_listening_is_one_clear_error() -> None:
    with pytest.raises(EndpointError) as caught:
        ask(Endpoint(url="http://127.0.0.1:9/v1"), QUESTION, model="tiny", timeout=2, pause=float)

    assert caught.value.message == "the endpoint at 127.0.0.1:9 cannot be reached"
    assert "refused" in caught.value.detail


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
@pytest.mark.parametrize("echo", [SECRET, SECRET[:9], f"key {SECRET[-8:]}"])
def test_the_key_is_in_no_error_and_no_log(stand_in, caplog, status: int, echo: str) -> None:
    caplog.set_level(logging.DEBUG)
    stand_in.reply(json.dumps({"error": {"message": f"Incorrect API key provided: {echo}."}}).encode(), status)
    error = fail(stand_in)

    assert SECRET[:6] not in all_of(error) + caplog.text
    assert SECRET[-6:] not in all_of(error) + caplog.text


def test_the_key_is_not_in_what_an_endpoint_shows_of_itself() -> None:
    assert SECRET not in repr(Endpoint(url="http://x/v1", key=SECRET))


def test_what_a_server_says_is_shown_safely(stand_in) -> None:
    stand_in.reply(json.dumps({"error": {"message": "\x1b[31mred\u202e" + "x" * 5000}}).encode(), 400)
    detail = fail(stand_in).detail

    assert "\x1b" not in detail
    assert "\\x1b[31mred\\u202e" in detail
    assert len(detail) < 400


@pytest.mark.parametrize(
    ("environment", "url", "key"),
    [
        ({URL: "http://127.0.0.1:1/v1/", KEY: " k "}, "http://127.0.0.1:1/v1", "k"),
        ({OPENAI_URL: "https://api.example/v1", OPENAI_KEY: "o"}, "https://api.example/v1", "o"),
        ({URL: "http://a/v1", OPENAI_URL: "https://b/v1", OPENAI_KEY: "o"}, "http://a/v1", ""),
        ({URL: "http://[::1]:8080"}, "http://[::1]:8080", ""),
    ],
)
def test_a_key_goes_with_its_own_address_only(environment, url: str, key: str) -> None:
    found = read_endpoint(environment)

    assert (found.url, found.key) == (url, key)


@pytest.mark.parametrize(
    "url",
    ["ftp://x/v1", "file:///etc/passwd", "x", "http://", "http://x:99999", "http://x/v1?key=hunter2",
     "https://user:hunter2@x/v1", "http://x/\x1b[31m", "http://x/a b",
     "http://a..b/v1", "http://x/v\u00fc", "http://b\u00fccher.example/v1", f"http://{'a' * 64}.example/v1"],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(EndpointUsageError) as caught:
        read_endpoint({URL: url})

    assert caught.value.exit_code == 2
    assert "hunter2" not in all_of(caught.value)
    assert "\x1b" not in all_of(caught.value)


def test_without_an_address_the_hint_names_the_variables() -> None:
    with pytest.raises(EndpointUsageError) as caught:
        read_endpoint({OPENAI_KEY: SECRET})

    assert caught.value.exit_code == 2
    assert URL in caught.value.hint
    assert SECRET not in all_of(caught.value)


def test_a_key_with_a_line_break_is_refused() -> None:
    with pytest.raises(EndpointUsageError, match="a key cannot have"):
        read_endpoint({URL: "http://x/v1", KEY: "a\r\nX-Other: b"})


@pytest.mark.parametrize(
    ("url", "is_open"),
    [("http://10.0.0.1/v1", True), ("http://127.evil.example/v1", True), ("http://127.0.0.1/v1", False),
     ("http://localhost:1/v1", False), ("http://[::1]/v1", False), ("https://10.0.0.1/v1", False)],
)  # fmt: skip
def test_an_unencrypted_way_is_known(url: str, is_open: bool) -> None:
    assert Endpoint(url=url).is_open is is_open


def test_proxies_are_not_asked_for_this_machine(stand_in, monkeypatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    stand_in.say("Direct.")

    assert put(stand_in).text == "Direct."
