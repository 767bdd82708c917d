"""Causes in findings.json: messages among them, and names that stay plain texts."""

import json

from pgtrial.findings.causes import Causes, Limit, LimitEvidence, Resource, Suspect
from pgtrial.findings.message import Message, message, say, verbatim
from pgtrial.findings.naming import UNKNOWN_STATEMENT, name_part, name_statement
from pgtrial.findings.session_time import CPU, CPU_QUEUE, OUTSIDE, SCHEDULE_LAG
from pgtrial.language import find_language, speak


def limit(detail: str | Message) -> Limit:
    busy = message("cpu.busy", share=0.93)
    proof = LimitEvidence(metric="vmstat.us+sy+st", value=0.93, unit="share", threshold=0.9, text=busy)
    suspect = Suspect(resource=Resource.CPU, strength=0.9, detail=detail, evidence=(proof,))
    text = message(
        "limit.resource",
        arm="on",
        level=message("level.clients", count=8),
        resource=message("resource.cpu"),
        reasons=(busy,),
    )
    return Limit(arm="on", load_level=0, resource=Resource.CPU, detail=detail, text=text, suspects=(suspect,))


def test_what_limits_an_arm_is_read_again_as_it_was_written() -> None:
    causes = Causes(tier="", limits=(limit("vda"), limit(message("detail.quota"))), text=message("dips.locks"))
    written = json.loads(causes.model_dump_json())

    assert Causes.model_validate(written) == causes
    name, said = (each["detail"] for each in written["limits"])
    assert (name, said["code"], said["text"]) == ("vda", "detail.quota", "quota of the control group")
    assert written["limits"][0]["text"]["text"] == "on with 8 clients is limited by the CPU: the CPUs are 93 % busy."


def test_what_limits_an_arm_is_said_in_another_language_than_it_was_found_in() -> None:
    read = Limit.model_validate_json(limit("vda").model_dump_json())
    with speak(find_language("ru")):
        russian = say(read.text)

    assert "93 %" in russian
    assert russian != say(read.text)


def test_causes_of_version_1_keep_their_words() -> None:
    suspect = {"resource": "cpu", "strength": 0.9, "detail": "a quota", "evidence": []}
    old = {"arm": "on", "load_level": 0, "resource": "cpu", "detail": "a quota", "text": "It is {x}."}
    causes = Causes.model_validate({"tier": "", "limits": [{**old, "suspects": [suspect]}], "text": ""})

    assert causes.text is None
    assert causes.limits[0].text == verbatim("It is {x}.")
    assert causes.limits[0].detail == causes.limits[0].suspects[0].detail == "a quota"


def test_only_parts_that_the_server_has_no_name_for_are_translated() -> None:
    parts = [(CPU, ""), (CPU_QUEUE, ""), (OUTSIDE, SCHEDULE_LAG), ("IO", "WALSync"), ("Lock", ""), ("", "tuple")]
    assert [say(name_part(*part)) for part in parts[:3]] == ["CPU", "CPU queue", "outside the server schedule lag"]
    assert [name_part(*part) for part in parts[3:]] == ["IO WALSync", "Lock", "tuple"]

    assert name_statement("SELECT 1") == "SELECT 1"
    assert name_statement(UNKNOWN_STATEMENT) == message("statement.unknown")
