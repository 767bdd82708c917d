"""pgtrial narrate: a result folder in plain words and, on request, a model's text with the facts filled in."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo
from pgtrial.language import ENGLISH, Language, find_language, speak

if TYPE_CHECKING:
    from pgtrial.findings.findings import Findings
    from pgtrial.narrate.answer import ModelText
    from pgtrial.narrate.dossier import Dossier

_STANDARD = "-"  # standard input or output


@click.command()
@options.folder
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown"]),
    default="text",
    help="Output format. Default: text.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, in English, with the source of every number.")
@click.option("--sources", is_flag=True, help="Below each paragraph, show where its numbers are in findings.json.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file instead.")
@click.option("--model", metavar="NAME", help="Add a text by this model, with the facts filled in.")
@click.option(
    "--answer",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Add a model's text from a file, with the facts filled in; - for standard input.",
)
@click.option(
    "--dossier",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write only what a model would be told, for manual use; - for standard output.",
)
@click.option("--no-redact", is_flag=True, help="Also tell the model names, the wording of the claim, and query texts.")
@click.option("--redact-arms", is_flag=True, help="Also hide the names of arms from the model.")
@click.option(
    "--timeout",
    default="2min",
    metavar="TIME",
    callback=options.parsed(options.seconds_above_zero("a timeout")),
    help="Time limit for the model's answer. Default: 2min.",
)
@options.language
def command(
    *,
    folder: Path,
    form: str,
    as_json: bool,
    sources: bool,
    output: Path | None,
    model: str | None,
    answer: Path | None,
    dossier: Path | None,
    no_redact: bool,
    redact_arms: bool,
    timeout: float,
    language: Language,
) -> None:
    """Describe in plain words what the experiment in result FOLDER found.

    Without --model nothing leaves this machine, and no model takes part.
    With it, the facts go to the OpenAI-compatible endpoint at
    PGTRIAL_NARRATE_URL (key: PGTRIAL_NARRATE_KEY) or OPENAI_BASE_URL (key:
    OPENAI_API_KEY). Names and queries are hidden from it.

    \b
    Examples:
      pgtrial narrate results/first-20260120T101500Z --format markdown
      pgtrial narrate results/first-20260120T101500Z --model llama3.3
      pgtrial narrate results/first-20260120T101500Z --dossier pack.md
    """
    if sum(given is not None for given in (model, answer, dossier)) > 1:
        raise click.UsageError("only one of --model, --answer and --dossier can be given")
    if no_redact and redact_arms:
        raise click.UsageError("--no-redact and --redact-arms exclude each other")
    if as_json and form != "text":
        raise click.UsageError("--json and --format exclude each other")
    language = find_language(ENGLISH) if as_json else language  # what programs read is in English
    from pgtrial.cli.findings import find_findings

    findings = find_findings(folder, language)
    with speak(language):
        said = None
        if model is not None or answer is not None or dossier is not None:
            facts = _dossier(findings, no_redact=no_redact, redact_arms=redact_arms)
            if dossier is not None:
                from pgtrial.narrate.dossier import write_pack

                _put(write_pack(facts), dossier)
                return
            said = _ask(model, facts, timeout=timeout) if answer is None else _check_file(answer, facts)
        text = _as_json(findings, said) if as_json else _tell(findings, said, form=form, sources=sources)
    _put(text, output or Path(_STANDARD))


def _dossier(findings: "Findings", *, no_redact: bool, redact_arms: bool) -> "Dossier":
    from pgtrial.narrate.dossier import make_dossier

    return make_dossier(findings, redact=not no_redact, redact_arms=redact_arms)


def _ask(model: str | None, dossier: "Dossier", *, timeout: float) -> "ModelText":
    from pgtrial.narrate.dossier import ask_for_text
    from pgtrial.narrate.endpoint import Answer, ChatMessage, ask, read_endpoint

    endpoint = read_endpoint(os.environ)
    if endpoint.is_open:
        _warn("the endpoint's address begins with http://, so the facts go there unencrypted")

    def ask_endpoint(messages: tuple[ChatMessage, ...]) -> Answer:
        return ask(endpoint, messages, model=model or "", timeout=timeout)

    return ask_for_text(dossier, ask_endpoint, warn=_warn)


def _warn(text: str) -> None:
    from pgtrial.safe_text import make_visible

    echo(f"warning: {make_visible(text)}", err=True)


def _check_file(path: Path, dossier: "Dossier") -> "ModelText":
    """A model's text that the user obtained by hand."""
    from pgtrial.errors import StoreError
    from pgtrial.narrate.check import MOST_CHARACTERS
    from pgtrial.narrate.dossier import accept_text

    try:
        with click.open_file(str(path), encoding="utf-8") as stream:
            text = stream.read(MOST_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise StoreError(f'cannot read "{path}": {reason}') from error
    return accept_text(dossier, text, model=f"from {'standard input' if str(path) == _STANDARD else path.name}")


def _tell(findings: "Findings", said: "ModelText | None", *, form: str, sources: bool) -> str:
    """The rule-based text, followed by the model's text and the English remarks on it."""
    from pgtrial.report.markdown import heading
    from pgtrial.report.narrative.story import tell_story
    from pgtrial.report.narrative.write import write_markdown, write_text
    from pgtrial.safe_text import make_visible

    name, story = findings.experiment.name, tell_story(findings)
    if form == "markdown":
        parts = [heading(1, name), write_markdown(story, with_sources=sources)]
    else:
        parts = [make_visible(name), write_text(story, with_sources=sources)]
    if said is not None:
        from pgtrial.narrate.answer import write_model_markdown, write_model_text

        write = write_model_markdown if form == "markdown" else write_model_text
        parts.append(write(said, with_sources=sources))
    return "\n\n".join(parts) + "\n"


def _as_json(findings: "Findings", said: "ModelText | None") -> str:
    from pgtrial.narrate.answer import model_data
    from pgtrial.report.narrative.story import tell_story
    from pgtrial.report.narrative.write import as_data

    story: dict[str, object] = {"experiment": findings.experiment.name, "paragraphs": as_data(tell_story(findings))}
    if said is not None:
        story["model"] = model_data(said)
    return json.dumps(story, indent=2) + "\n"  # without characters that steer a terminal: all others are escaped


def _put(text: str, path: Path) -> None:
    """Write to the file, whole or not at all; to standard output for "-"."""
    from pgtrial.errors import StoreError
    from pgtrial.safe_files import write_file

    if str(path) == _STANDARD:
        echo(text, nl=False)
        return
    try:
        write_file(path, text)
    except OSError as error:
        raise StoreError(f'cannot write "{path}": {error.strerror}') from error
    echo(f"wrote {path}", err=True)
