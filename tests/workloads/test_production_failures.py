"""What is said of statements of a drawn load that fail: which, and why, and no value of a row."""

import pytest

from pgtrial.workloads.production.failures import Failure, find_failures, name_scripts, without_values

SCRIPT = (
    "\\set n random(1, 9)\nSELECT p.* FROM pgtrial_workload.s002 AS p WHERE n = :n \\gset\nUPDATE t SET a = :v0_1;\n"
)
DUPLICATE = (
    'client 1 script 1 aborted in command 2 query 0: ERROR:  duplicate key value violates unique constraint "t_a_key"\n'
    "DETAIL:  Key (a)=(Alice) already exists."
)


def test_an_error_names_the_script_and_not_its_number():
    error = "client 2 script 1 aborted in command 4 query 0: ERROR:  script 1 is unknown"

    assert name_scripts(error, ["s001", "s002"]) == (
        "client 2 script s002 aborted in command 4 query 0: ERROR:  script 1 is unknown"
    )
    assert name_scripts("script 7 is unknown", ["s001"]) == "script 7 is unknown"


def test_the_statement_that_ended_a_client_is_told():
    errors = [name_scripts(DUPLICATE, ["s001", "s002"])] * 2
    errors += ["client 0 script s003 command 2 query 0: error storing into variable q0_?column?"]
    errors += ["client 3 aborted in command 1 (SQL) of script s001; expected one row, got 0", "Run was aborted"]

    scripts = {
        "s001": "SELECT 1 \\gset\nSELECT\n1;\n",
        "s002": SCRIPT,
        "s003": "BEGIN;\nSELECT 1;\nSELECT 2 \\gset q0_\n",
    }

    assert [*find_failures(errors, scripts)] == [
        Failure(
            script="s002",
            statement="UPDATE t SET a = :v0_1",
            error='ERROR:  duplicate key value violates unique constraint "t_a_key"',
        ),
        Failure(script="s003", statement="SELECT 2 \\gset q0_", error="error storing into variable q0_?column?"),
        Failure(script="s001", statement="", error="expected one row, got 0"),
    ]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            'ERROR:  invalid input syntax for type integer: "Alice: "',
            "ERROR:  invalid input syntax for type integer: …",
        ),
        ('ERROR:  value "4711" is out of range for type integer', "ERROR:  value … is out of range for type integer"),
        (
            'ERROR:  new row for relation "t" violates check constraint "c"\nDETAIL:  Failing row contains (Alice).',
            'ERROR:  new row for relation "t" violates check constraint "c"',
        ),
        ('ERROR:  time zone "Alice" not recognized', "ERROR:  time zone … not recognized"),
        ('ERROR:  invalid value "Alic" for "YYYY"', "ERROR:  invalid value …"),
        ('ERROR:  role "Alice" does not exist', "ERROR:  role … does not exist"),
        ('ERROR:  relation "alice" does not exist', "ERROR:  relation … does not exist"),
        ('ERROR:  relation "x violates y" does not exist', "ERROR:  relation … does not exist"),
        ('ERROR:  time zone "b" not recognized" Alice', "ERROR:  time zone …"),
        ('ERROR:  invalid input value for enum mood: "Ali\nce"', "ERROR:  invalid input value for enum mood: …"),
        ("ERROR:  setval: value 4711 is out of bounds", "ERROR:  setval: value … is out of bounds"),
        ('ERROR:  column "a" of relation "t" does not exist', 'ERROR:  column "a" of relation "t" does not exist'),
        (
            'ERROR:  null value in column "b" of relation "u" violates not-null constraint',
            'ERROR:  null value in column "b" of relation "u" violates not-null constraint',
        ),
        (
            'ERROR:  new row for relation "größe" violates check constraint "größe_check"',
            'ERROR:  new row for relation "größe" violates check constraint "größe_check"',
        ),
        (
            'connection to server on socket "/run/s" failed: FATAL:  role "Alice" does not exist',
            'connection to server on socket "/run/s" failed: FATAL:  role … does not exist',
        ),
        ('malformed variable "n" value: "Alice"', 'malformed variable "n" value: …'),
    ],
)
def test_errors_are_said_without_values(error, said):
    assert without_values(error, {"a", "t"}) == said


@pytest.mark.parametrize(
    "error",
    [
        "FEHLER:  ungültige Eingabesyntax für Typ integer: »Alice 37«",
        "ERREUR:  syntaxe en entrée invalide pour le type integer : « Alice »",
        "ERROR:  la sintaxis de entrada no es válida para tipo integer: «Alice»",
        'ERRORE:  il fuso orario "Alice" non è riconosciuto',
        'FEHLER:  neue Zeile für Relation "t" »Alice« violates constraint "c"',
        'client 1 script s001 aborted in command 2 query 0: ERRO:  fuso "Alice" desconhecido',
        "ERROR:  tipo «Alice»",
        'ERROR:  la columna "a" no es «Alice»',
    ],
)
def test_of_an_error_in_another_language_nothing_is_said(error):
    assert "lc_messages" in (said := without_values(error, {"a", "t"}))
    assert "Alice" not in said
