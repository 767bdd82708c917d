import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.postgres.settings import (
    SECRET,
    Setting,
    find_mismatches,
    is_alike,
    is_same,
    read_settings,
    render_settings,
)


def setting(value: str, *, vartype: str = "string", unit: str = "", source: str = "configuration file") -> Setting:
    return Setting(
        name="x", value=value, unit=unit, vartype=vartype, source=source, source_file="/data/pgtrial.conf", shown=value
    )


@pytest.mark.parametrize(
    ("wanted", "value", "vartype", "unit"),
    [
        ("on", "on", "bool", ""),
        ("true", "on", "bool", ""),
        ("no", "off", "bool", ""),
        ("2GB", "262144", "integer", "8kB"),  # 2 * 1024**3 / 8192
        ("131072", "131072", "integer", "8kB"),
        ("64MB", "65536", "integer", "kB"),
        ("1GB", "1024", "integer", "MB"),
        ("5min", "300", "integer", "s"),
        ("0.5s", "500", "integer", "ms"),
        ("1h", "60", "integer", "min"),
        ("1.5", "1.5", "real", ""),
        ("2ms", "2", "real", "ms"),
        ("ON", "on", "enum", ""),
        ("true", "on", "enum", ""),
        ("on", "pglz", "enum", ""),  # wal_compression
        ("replica", "replica", "enum", ""),
        ("pg_stat_statements", "pg_stat_statements", "string", ""),
        ("100kB", "12", "integer", "8kB"),  # 12.5 blocks; the server rounds to even
    ],
)
def test_value_means_what_the_server_has(wanted, value, vartype, unit):
    assert is_same(wanted, setting(value, vartype=vartype, unit=unit))


@pytest.mark.parametrize(
    ("wanted", "value", "vartype", "unit"),
    [
        ("on", "off", "bool", ""),
        ("perhaps", "off", "bool", ""),
        ("2GB", "131072", "integer", "8kB"),
        ("2GB", "262144", "integer", "ms"),
        ("minimal", "replica", "enum", ""),
        ("a", "b", "string", ""),
        ("many", "3", "integer", ""),
        ("1.2.3", "1", "real", ""),
    ],
)
def test_value_does_not_mean_what_the_server_has(wanted, value, vartype, unit):
    assert not is_same(wanted, setting(value, vartype=vartype, unit=unit))


def test_server_may_choose_where_it_was_asked_to():
    assert is_same("-1", setting("512", vartype="integer", unit="8kB", source="override"))
    assert not is_same("-1", setting("512", vartype="integer", unit="8kB"))


def test_setting_from_another_file_is_a_mismatch():
    actual = {"x": setting("1", vartype="integer")}

    assert find_mismatches({"x": "1"}, actual, source_file="/data/pgtrial.conf") == ()
    assert find_mismatches({"X": "1"}, actual, source_file="/elsewhere.conf")[0][2] == "1 (from /data/pgtrial.conf)"


def test_text_that_the_server_writes_in_its_own_way_is_no_mismatch():
    actual = {"datestyle": setting("ISO, DMY"), "timezone": setting("UTC"), "x": setting("on", vartype="bool")}

    wanted = {"DateStyle": "iso,dmy", "TimeZone": "utc", "x": "off"}
    assert [name for name, _, _ in find_mismatches(wanted, actual, source_file="/data/pgtrial.conf")] == ["x"]


def test_setting_that_the_server_does_not_have_is_a_mismatch():
    assert find_mismatches({"y": "1"}, {}, source_file="")[0][:2] == ("y", "1")


def test_awkward_values_survive_the_configuration_file(throwaway, runner):
    value = 'it\'s a \\ "value" = # with; everything'
    throwaway.write_settings({"pgtrial_test.text": value})
    runner.run(throwaway.stop())
    runner.run(throwaway.start())

    actual = runner.run(read_settings(throwaway.conninfo(), also=["pgtrial_test.text"]))

    assert actual["pgtrial_test.text"].shown == value
    assert find_mismatches({"pgtrial_test.text": value}, actual, source_file=str(throwaway.conf)) == ()


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text(st.characters(codec="ascii"), max_size=9)))
def test_every_setting_takes_part_in_the_file(settings):
    text = render_settings(settings)

    assert all(f"{name} = '" in text for name in settings)


@pytest.mark.parametrize(
    ("wanted", "value", "vartype", "alike"),
    [
        ("iso, mdy", "ISO, MDY", "string", True),
        ("utc", "UTC", "string", True),
        ("a,b", "a, b", "string", True),
        ("a", "b", "string", False),
        ("1", "2", "integer", False),
    ],
)
def test_a_text_that_the_server_has_tidied_is_alike(wanted, value, vartype, alike):
    assert is_alike(wanted, setting(value, vartype=vartype)) is alike


def test_settings_that_can_hold_a_password_are_shown_only_where_the_file_names_them(throwaway, runner):
    secrets = {"primary_conninfo": "host=x password=s3ntinel", "restore_command": "x --password s3ntinel"}
    throwaway.write_settings(secrets)
    runner.run(throwaway.stop())
    runner.run(throwaway.start())

    actual = runner.run(read_settings(throwaway.conninfo(), also=["Restore_Command"]))

    assert actual["restore_command"].shown == secrets["restore_command"]
    assert actual["primary_conninfo"].shown == actual["primary_conninfo"].value == "(not shown)"
    assert actual["primary_conninfo"].source == "configuration file"
    # There is nothing to hide.
    assert (actual["ssl_passphrase_command"].shown, actual["archive_command"].shown) == ("", "(disabled)")
    assert "s3ntinel" not in repr(runner.run(read_settings(throwaway.conninfo())))


def test_every_setting_that_can_hold_a_password_is_one_of_the_server(served, runner):
    actual = runner.run(read_settings(served.conninfo()))

    assert set(SECRET) <= set(actual)
    assert actual["shared_buffers"].context == "postmaster"
    assert not actual["shared_buffers"].pending
