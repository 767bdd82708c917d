"""What SQL and settings look like that execute code or reach files and hosts: the table that ``code_uses`` looks for.

A rule for a class (options, roles, schemas of extensions, settings that name files) stands before a list of names.
"""

import re
from dataclasses import dataclass

COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)  # of SQL, one in another taken for its end
# Settings whose value is a command, a library, code, a file, or another server, as their names end,
_ENDS = r"(?:command|librar(?:y|ies)|director(?:y|ies)|dir|(?<!search_)path|file|keyfile|conninfo|script)"
# and those that do not end so, in PostgreSQL, in its languages and in extensions.
_OF_LANGUAGES = (
    r"(?:plperl|pllua\w*)\.on_\w+|(?:pltclu?|plv8)\.(?:start|boot)_proc|plv8\.v8_flags"
    r"|(?:pljava|plpython\w*|plrust)\.\w+"
)
_OF_EXTENSIONS = r"postgis\.(?:gdal_\w+|enable_outdb_rasters)|(?:duckdb|http|pgml)\.\w+"
_OTHERS = rf"jit_provider|allow_system_table_mods|{_OF_LANGUAGES}|{_OF_EXTENSIONS}"
SETTINGS = re.compile(rf"[\w.]*(?:_|\.){_ENDS}|{_OTHERS}", re.IGNORECASE)
# Libraries by name alone are those that root installed for the server: what they are is no choice of the file.
PRELOADS = ("shared_preload_libraries", "session_preload_libraries", "local_preload_libraries")
INSTALLED = re.compile(r"\w+(\s*,\s*\w+)*", re.ASCII)
# In SQL columns are called so, too: there those of PostgreSQL by their names, of an extension by the dot before them.
_KNOWN = (
    r"(?:archive|restore|archive_cleanup|recovery_end|ssl_passphrase)_command|\w+_preload_libraries|archive_library"
    r"|primary_conninfo|promote_trigger_file|krb_server_keyfile|ssl_\w+_(?:file|dir)|jit_provider"
    r"|dynamic_library_path|extension_control_path"
)
UNTRUSTED = r"\b(?:pl[a-z0-9]+u|plsh|plr)\b"
CODE_IN_OPTIONS = re.compile(rf"(?:_|\.){_ENDS}\b|{_OTHERS}".replace("_", "[_-]"), re.IGNORECASE)
_FILE = "a file of the server's machine"
_CATALOG = "the server's own catalogs"
JOINED = "SQL put together as it runs"
UNKNOWN_EXTENSION = "an extension that pgtrial does not know"
_TEXT = r"(?:e?'|u&'|\$|/\*|--|:)"
# What begins a relation's name, and may be longer than is looked at, is taken for one.
_OF_NAME = r"\w$\x80-\U0010ffff"  # to PostgreSQL any byte that is not ASCII is a letter
_LONG = rf"(?:\"[^\"\n]{{0,129}}\n|\"[^\"\n]{{130}}|[{_OF_NAME}.]{{130}})"
_RELATION = rf"(?:\"[^\"\n]{{1,130}}\"|[{_OF_NAME}]|\s*+\.\s*+){{1,200}}+\s*+"
_SQL = rf"(?:'(?:sql|plpgsql)'|\"(?:sql|plpgsql)\"|(?:sql|plpgsql)(?![{_OF_NAME}]))"
_COLUMNS = r"\((?:[^();\"]{1,4000}+|\"[^\"\n]{0,130}\"){0,200}+\)\s*+"
_ROUTINE = r"\b(?:function|procedure|do)\b"
# In PL/pgSQL "function" may also be a variable, or the schema of a function that makes the text.
_ROUTINE_OF_TRIGGER = (
    r"(?:function|procedure)\s+(?!using\b|into\b|operator\b|\.)(?:[\w$.]|\"[^\"\n]{1,130}\"){1,130}\s*\("
)
_CATALOGS = (
    r"\bpg_(?:aggregate|am|amop|amproc|attrdef|authid|cast|constraint|conversion|db_role_setting|event_trigger"
    r"|extension|foreign_\w+|index|language|opclass|operator|policy|proc|rewrite|settings|transform|trigger|ts_\w+"
    r"|type)\b"
)
_EXECUTED = (
    r"(?:query|cursor|table|schema|database)_to_xml\w*|ts_stat|ts_rewrite|xpath_table|crosstab\w*|connectby"
    r"|pg_background_launch|cron\"?\s*+\.\s*+\"?(?:schedule\w*|alter_job|job\b)|repack_apply|distributed_exec"
    r"|oracle_execute|dbms_(?:sql|job|scheduler)"
)
_READ_OR_WRITTEN = (
    r"pg_(?:read_(?!server_)\w*|hba_|ident_)file\w*|pg_stat_file|pg_file_(?!write\b)\w+|pg_ls_\w*dir|pg_logdir_ls"
    r"|lo_import|file_fdw|st_setbandpath|st_fromgdalraster"
)
_CALLED = r"\"?\s*+(?:\(|/\*|--)"
_SERVICES = r"(?:aws_(?:lambda|ml|s3)|azure_(?:ai|cognitive|local_ai|ml|openai|storage)|google_ml\w*)"  # and schemas
_SERVERS = (
    r"citus_\w*add_\w*node|(?:master_add|add_data|attach_data)_node|run_command_on_\w+|(?:pglogical|spock)\"?\s*+\."
)
# Those of PostgreSQL itself and of its neighbourhood that run no code, and reach no file or host, by their functions.
# What the functions of any other do is not in their names.
HARMLESS = (
    r"amcheck|autoinc|bloom|btree_gi(?:n|st)|citext|cube|dict_(?:int|xsyn)|earthdistance|fuzzystrmatch|hstore|hll|hypopg"
    r"|insert_username|intagg|intarray|isn|lo|ltree|moddatetime|pageinspect|pg_(?:buffercache|freespacemap|hint_plan"
    r"|logicalinspect|overexplain|partman|prewarm|qualstats|repack|stat_kcache|stat_statements|surgery|trgm|visibility"
    r"|wait_sampling|walinspect)|pgcrypto|pgrowlocks|pgstattuple|plpgsql|postgis(?:_topology)?|rdkit|refint|rum|seg"
    r"|sslinfo|tablefunc|tcn|timescaledb|topn|tsm_system_(?:rows|time)|unaccent|uuid-ossp|vector|xml2"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """What is looked for; one of ``words`` is in each line in which a match begins, ``needs`` in the text."""

    what: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]
    needs: re.Pattern[str]


def _pattern(what: str, words: str, pattern: str, needs: str = "") -> Pattern:
    """``words`` are separated by blanks; one in a word is written "~"."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return Pattern(
        what=what,
        words=tuple(word.replace("~", " ") for word in words.split()),
        pattern=compiled,
        needs=re.compile(needs, re.IGNORECASE),
    )


# Looked for in the text as it stands, comments and strings included: whoever hides a command in them is to be seen, and
# a line too many does no harm.
PATTERNS = (
    _pattern("a shell command", "shell", r"\\\s*+(?:set)?shell\b"),
    _pattern("a shell command of the server", "program", r"\bprogram\b", r"\b(?:copy|foreign)\b"),
    _pattern("a function that is not SQL", "language", rf"\blanguage\b(?!\s*{_SQL})", rf"{_ROUTINE}"),
    _pattern(
        "a language",
        "language alter create",
        r"\b(?:alter|create)\s*+(?:/\*|--|(?:or\s+replace\s+)?+(?:trusted\s+)?+(?:procedural\s+)?+language\b)",
        r"\blanguage\b",
    ),
    _pattern("an untrusted language", "pl", UNTRUSTED),
    _pattern("a library", "load", rf"\bload\b\s*{_TEXT}"),
    _pattern("a library", "logical_replication_slot", r"\bpg_(?:create|copy)_logical_replication_slot\b"),
    _pattern(
        "a setting that names code",
        "_command _libraries _library jit_provider _path _conninfo _trigger_file krb_server ssl_",
        rf"\b(?:{_KNOWN})\b",
        r"\b(?:set|set_config|pg_settings)\b",
    ),
    # Quotation marks, blanks and comments may stand before the dot, which is why what follows it is not asked for.
    _pattern(
        "a setting of an extension that names code or a file",
        "pl postgis",
        r"\b(?:pl(?:java|lua|perl|python|rust|tcl|v8)\w*\"?\s*+(?:\.|/\*|--)"
        r"|postgis\"?\s*+(?:/\*|--|\.\s*+(?:/\*|--|\"?(?:gdal|enable_outdb)_)))",
        r"\b(?:set|set_config|pg_settings)\b",
    ),
    _pattern(
        "a setting of an extension that names code or a file",
        "set",
        rf"\bset\b(?:\s++|[^=;'.\s]){{0,150}}+\.[\s\"]*+\w{{0,80}}?(?:_|\b){_ENDS}\b"
        rf"|\bset_config\"?\s*+\(\s*+'\w{{1,80}}\.\w{{0,80}}?(?:_|\b){_ENDS}'",
    ),
    _pattern(
        "a setting whose name has a comment in it",
        "set",
        r"\bset\b(?:\s++|[\w$\".\x80-\U0010ffff]){0,150}+(?:/\*|--)",
    ),
    _pattern(
        "a setting of the whole server",
        "system",
        r"\bsystem\s*+(?:/\*|--|:|set\b|reset\b)",
        r"\balter\b",
    ),
    _pattern(
        "a setting whose name is put together as it runs",
        "set_config",
        r"\bset_config\"?\s*+(?!\(\s*+(?:e|u&)?'[\w.]*'\s*(?:::\s*text\s*)?,)",
    ),
    _pattern("a name that is not written out", "uescape", r"\buescape\b(?!\s*'[^'\n]')", r"\bu&[\"']"),
    _pattern("a file written by the server", "lo_export pg_file_write", r"\b(?:lo_export|pg_file_write)\b"),
    _pattern(
        _FILE,
        "copy",
        rf"(?<!\\)\bcopy\s*+(?:binary\b\s*+)?(?:/\*|--|{_LONG}"
        rf"|{_RELATION}(?:{_COLUMNS})?(?:/\*|--|(?:from|to)\s*+{_TEXT}))",
    ),
    _pattern(_FILE, ")", rf"\)\s*+(?:from|to)\s*+{_TEXT}", r"\bcopy\b"),
    _pattern(_FILE, ")", r"\)\s*+(?:/\*|--)", r"\bcopy\s*+\("),
    _pattern(_FILE, "location", rf"\blocation\s*+{_TEXT}", r"\btablespace\b"),
    _pattern(
        _FILE,
        "pg_read_ pg_hba_ pg_ident_ pg_stat_file pg_ls_ pg_logdir pg_file_ lo_import file_fdw st_set st_from",
        rf"\b(?:{_READ_OR_WRITTEN})\b",
    ),
    _pattern(
        "a role with powers over the server's machine",
        "pg_execute_server pg_read_server pg_write_server pg_create_subscription",
        r"\bpg_(?:execute_server_program|(?:read|write)_server_files|create_subscription)\b",
    ),
    _pattern(
        _CATALOG,
        "pg_proc pg_language allow_system",
        r"\b(?:pg_proc|pg_language|allow_system_table_mods)\b",
        r"\b(?:update|insert|merge|set)\b",
    ),
    _pattern(
        _CATALOG,
        "pg_",
        r"\b(?:update|into)\s*+(?:only\b\s*+)?(?:\"?pg_catalog\"?\s*+\.\s*+)?\"?pg_(?!temp)\w",
    ),
    _pattern(_CATALOG, "/* --", r"\b(?:update|into|copy)\s*+(?:/\*|--)", _CATALOGS),
    _pattern(_CATALOG, "pg_", rf"\bcopy\s*+(?:binary\b\s*+)?(?:\"?pg_catalog\"?\s*+\.\s*+)?\"?{_CATALOGS}"),
    _pattern("data elsewhere", "foreign", r"\bforeign\s*+(?:/\*|--|(?:data|schema|table)\b)"),
    _pattern(
        "a connection to another server",
        "dblink _fdw server subscription _node _command pglogical spock",
        rf"\bdblink(?:_\w+)?\b|\bpostgres_fdw\b|\b(?:create|alter)\s+(?:server|subscription)\b|\b(?:{_SERVERS})",
    ),
    _pattern(
        "a connection to another server",
        "create alter",
        r"\b(?:create|alter)\s*+(?:/\*|--)",
        r"\boptions\s*+\(|\bsubscription\b",
    ),
    _pattern(
        "a request to another host",
        'http_ http~ http( http/ http- http" aws_ azure_ google_ anthropic_ cohere_ litellm_ ollama_ openai_ voyageai_',
        rf"\bhttp(?:_(?:get|head|post|put|patch|delete|set_curlopt))?{_CALLED}|\b{_SERVICES}\b"
        r"|\b(?:anthropic|cohere|litellm|ollama|openai|voyageai)_\w++\"?\s*+\(",
    ),
    _pattern(
        "code or files of an extension",
        "sqlj duckdb utl_ pgagent timetable pgml read_ _scan",
        r"\b(?:sqlj|duckdb|pgagent|pgml|utl_(?:file|http|mail|smtp|tcp))\b|\btimetable\"?\s*+\.\s*+\"?(?:add_|task|chain)"
        rf"|\b(?:read_(?:blob|csv|json|parquet|text)\w*|(?:delta|iceberg)_scan){_CALLED}",
    ),
    _pattern(
        "an extension that reaches other hosts",
        "extension",
        rf"\bextension\s*+(?:if\s+not\s+exists\b\s*+)?+(?:/\*|--|\"?(?:http|pg_net|plproxy|{_SERVICES})\b)",
    ),
    _pattern(
        UNKNOWN_EXTENSION,
        "extension",
        r"\bcreate\s++extension\b(?!\s*+(?:if\s++not\s++exists\b\s*+)?+"
        rf"(?:\"(?-i:{HARMLESS})\"|(?:{HARMLESS})(?![{_OF_NAME}\"])))"
        r"|\bcreate\s*+(?:/\*|--)",
        r"\bextension\b",
    ),
    _pattern(JOINED, "execute", rf"\bexecute\b(?!\s+on\b|\s+{_ROUTINE_OF_TRIGGER})", rf"{_ROUTINE}"),
    _pattern(JOINED, "_to_xml ts_ xpath_ crosstab connectby launch cron repack_ _exec dbms_", rf"\b(?:{_EXECUTED})\b"),
    # A statement that begins with a variable of pgbench is whatever that holds by then.
    _pattern(JOINED, ":", r"(?m)(?:^|;)\s*+:[a-z_]"),
    # Pgbench puts them into strings, too, where they may be the rest of an escape.
    _pattern(JOINED, ":", r"\\[0-9a-fxu+]*+:[a-z_]"),
    _pattern(JOINED, ":", r"(?<!:):[a-z_]", r"\bu&[\"']"),
    # So is a name that is one, or ends in one, where the server's answer was put into a variable.
    _pattern(JOINED, ":", r"[a-z_]:[a-z_]|(?<![:\w]):[a-z_]\w*\s*+\(", r"\\[ag]set\b"),
)
# On a server that is not pgtrial's own, also where its transactions may only read.
OF_SERVER = (
    _pattern(
        "what concerns the whole server",
        "pg_ lo_unlink alter drop create reassign checkpoint prepare prewarm set",
        r"\bpg_(?:(?:terminate|cancel)_backend|\w*replication_(?:slot|origin)\w*|(?:logical|sync_replication)_slot\w*"
        r"|buffercache_evict\w*|logical_emit_message|prewarm|import_system_collations|reload_conf|rotate_logfile"
        r"|promote|switch_wal|(?:backup_)?(?:start|stop)(?:_backup)?|create_restore_point"
        r"|wal_replay_\w+|log_\w+|stat\w*_reset\w*)\b|\blo_unlink\b"
        r"|\balter\s+(?:role|user|group|database|tablespace|publication|event\s+trigger)\b"
        r"|\b(?:drop|create)\s+(?:database|role|user|group|tablespace|publication|event\s+trigger)\b"
        r"|\b(?:alter|drop|create|reassign)\s*+(?:/\*|--)|\breassign\s+owned\b|\bdrop\s+owned\b"
        r"|\bcheckpoint\b|\bautoprewarm_\w+|\bprepare\s+transaction\b|\b(?:commit|rollback)\s+prepared\b"
        r"|\bset\s+(?:(?:local|session)\s+)?(?:role|session\s+authorization)\b",
    ),
)
# Where its file lets nothing be written: these are carried out in read-only transactions, too.
OF_READERS = (
    _pattern(
        "a change that read-only transactions allow",
        "vacuum analy reindex cluster lock lo notify brin_ gin_ pg_clear pg_restore visibility_map heap_force",
        r"(?m)(?:^|;)[^\S\n]*+(?:vacuum|analy[sz]e|cluster|lock|notify)\b|\breindex\b|\block\s+(?:table\b|/\*|--)"
        r"|\bpg_(?:notify|(?:try_)?advisory_\w*lock\w*)\b"
        r"|\blo_(?:creat\w*|from_bytea|put|import\w*|truncate\w*)\b|\blowrite\b"
        r"|\bbrin_\w*summarize_\w+|\bgin_clean_pending_list\b|\bpg_(?:clear|restore)_\w+_stats\b"
        r"|\bpg_truncate_visibility_map\b|\bheap_force_(?:freeze|kill)\b",
    ),
    _pattern(
        "a name by which the script's session is not known as the load's",
        "application_name",
        r"\bset\s++(?:(?:session|local)\s++)?+\"?application_name\b|'application_name'",
    ),
)
# One is in every line of SQL in which a match begins, in small letters, unless it is there by an escape, which has a
# backslash, or by a variable, which has a colon, or is the end of a COPY.
WORDS = ("\\", "uescape", *{word for each in PATTERNS for word in each.words if len(word) > 1})
