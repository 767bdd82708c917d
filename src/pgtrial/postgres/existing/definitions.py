"""The query for all that defines the objects of a database, by their names.

PostgreSQL's own functions that write a definition out (pg_get_viewdef, pg_get_indexdef, pg_get_expr) lock the tables
that it names until the statement ends: they would wait for whoever alters one, and for some thousand tables the
server's lock table would not do. So rows of the catalogue stand here as they are, with all the columns that the
server's version has. What is dropped and made again as it was has another number, so other objects stand by their
names, and an object without its own number.
"""

# Of what an expression or a query was parsed into: where in the statement each part of it stood.
_PLACES = r":(location|stmt_location|stmt_len|list_start|list_end) -?\d+"
_FROM_HERE = 16384  # numbers of objects that are not the system's


def _tree(expression: str) -> str:
    return f"pg_catalog.regexp_replace(({expression})::text, '{_PLACES}', '', 'g')"


def _row(alias: str, *without: str) -> str:
    """A row of the catalogue, but for the columns that have numbers of objects or what the server notes for itself."""
    return f"pg_catalog.to_jsonb({alias}) - '{{{','.join(('oid', *without))}}}'::text[]"


def _rights(acl: str, kind: str, owner: str) -> str:
    """Who may do what with an object: while nobody has granted anything there stands nothing, which is the default."""
    return f"coalesce({acl}, pg_catalog.acldefault({kind}, {owner}))"


def _all(parts: str, order: str, rest: str) -> str:
    """The rows of ``rest`` that belong to an object, in one value."""
    return (
        f"(SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array({parts}) ORDER BY {order}) FROM pg_catalog.{rest})"
    )


def _said(alias: str, catalogue: str) -> str:
    """Comments on an object and on its columns, and labels."""
    whose = f"x.objoid = {alias}.oid AND x.classoid = 'pg_catalog.{catalogue}'::regclass"
    return (
        _all("x.objsubid, x.description", "x.objsubid", f"pg_description AS x WHERE {whose}")
        + ", "
        + _all("x.objsubid, x.provider, x.label", "x.objsubid, x.provider", f"pg_seclabel AS x WHERE {whose}")
    )


# By name: a whole row has a value of the column's type, and who has made a cast from that to json has written a
# function that the conversion would call, as the role that reads.
_COLUMNS = _all(
    f"""a.attname, a.attlen, a.atttypmod, a.attndims, a.attbyval, a.attalign, a.attstorage, a.attcompression,
        a.attnotnull, a.atthasdef, a.attidentity, a.attgenerated, a.attislocal, a.attinhcount, a.attstattarget,
        a.attacl, a.attoptions, a.attfdwoptions, a.atttypid::regtype, a.attcollation::regcollation,
        {_tree("d.adbin")}""",
    "a.attnum",
    """pg_attribute AS a LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped""",
)
# The operators of an exclusion alone do not follow from the index.
_CONSTRAINT = f"""{
    _row(
        "k",
        "connamespace",
        "conrelid",
        "contypid",
        "conindid",
        "conparentid",
        "confrelid",
        "conpfeqop",
        "conppeqop",
        "conffeqop",
        "conexclop",
        "conbin",
    )
}, k.confrelid::regclass, k.conexclop::regoperator[]::text, {_tree("k.conbin")}, {_said("k", "pg_constraint")}"""
_CONSTRAINTS = _all(_CONSTRAINT, "k.conname", "pg_constraint AS k WHERE k.conrelid = c.oid")
_TRIGGERS = _all(
    f"""{
        _row("t", "tgrelid", "tgparentid", "tgfoid", "tgconstrrelid", "tgconstrindid", "tgconstraint", "tgqual")
    }, t.tgfoid::regprocedure, t.tgconstrrelid::regclass, {_tree("t.tgqual")}, {_said("t", "pg_trigger")}""",
    "t.tgname",
    "pg_trigger AS t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal",
)
# Those that see to foreign keys have numbers in their names. They can be disabled.
_TRIGGERS_OF_KEYS = _all(
    "k.conname, t.tgfoid::regprocedure, t.tgtype, t.tgenabled",
    "k.conname, t.tgfoid, t.tgtype",
    """pg_trigger AS t LEFT JOIN pg_catalog.pg_constraint AS k ON k.oid = t.tgconstraint
        WHERE t.tgrelid = c.oid AND t.tgisinternal AND t.tgenabled <> 'O'""",
)
_INDEX = _all(
    f"""{_row("i", "indexrelid", "indrelid", "indcheckxmin", "indexprs", "indpred")},
        i.indrelid::regclass, {_tree("i.indexprs")}, {_tree("i.indpred")}""",
    "i.indexrelid",
    "pg_index AS i WHERE i.indexrelid = c.oid",
)


def _of_relation(expression: str) -> str:
    """Of the query of a rule or a view, without the relation's own number."""
    return rf"pg_catalog.regexp_replace({_tree(expression)}, concat('\m', c.oid, '\M'), '', 'g')"


_RULES = _all(
    f"""{_row("r", "ev_class", "ev_qual", "ev_action")}, {_of_relation("r.ev_qual")}, {_of_relation("r.ev_action")},
        {_said("r", "pg_rewrite")}""",
    "r.rulename",
    "pg_rewrite AS r WHERE r.ev_class = c.oid",
)
_POLICIES = _all(
    f"""{_row("p", "polrelid", "polqual", "polwithcheck")}, {_tree("p.polqual")}, {_tree("p.polwithcheck")},
        {_said("p", "pg_policy")}""",
    "p.polname",
    "pg_policy AS p WHERE p.polrelid = c.oid",
)
_PARENTS = _all(
    f"i.inhparent::regclass, {_row('i', 'inhrelid', 'inhparent')}",
    "i.inhseqno",
    "pg_inherits AS i WHERE i.inhrelid = c.oid",
)
_PARTITIONED_BY = _all(
    f"{_row('p', 'partrelid', 'partdefid', 'partexprs')}, {_tree('p.partexprs')}",
    "p.partrelid",
    "pg_partitioned_table AS p WHERE p.partrelid = c.oid",
)
_SEQUENCE = _all(_row("q", "seqrelid"), "q.seqrelid", "pg_sequence AS q WHERE q.seqrelid = c.oid")
_OWNER_OF_SEQUENCE = _all(
    "a.attrelid::regclass, a.attname, d.deptype",
    "a.attrelid, a.attnum",
    """pg_depend AS d JOIN pg_catalog.pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
        WHERE c.relkind = 'S' AND d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid
            AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjsubid > 0""",
)
_FOREIGN = _all(
    "s.srvname, f.ftoptions",
    "f.ftrelid",
    "pg_foreign_table AS f JOIN pg_catalog.pg_foreign_server AS s ON s.oid = f.ftserver WHERE f.ftrelid = c.oid",
)
# A column that was dropped and added again has another number in the same table, and none of its values.
_NUMBERED = """
    CASE WHEN c.relkind = 'r' THEN
        (SELECT concat(' ', c.oid, ' ',
                coalesce(pg_catalog.json_object_agg(pg_catalog.quote_ident(a.attname), a.attnum)::text, '{}'))
            FROM pg_catalog.pg_attribute AS a
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) END
"""
_RIGHTS_OF_RELATION = _rights(
    "c.relacl", """(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END)::"char" """.strip(), "c.relowner"
)
_NOT_SYSTEMS = "n.nspname !~ '^pg_(toast|temp)' AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
_OBJECTS: tuple[tuple[str, str, str], ...] = (
    (
        "'schema ' || pg_catalog.quote_ident(n.nspname)",
        f"""n.nspowner, {_rights("n.nspacl", "'n'", "n.nspowner")}, {_said("n", "pg_namespace")}""",
        "pg_namespace AS n WHERE n.nspname !~ '^pg_(toast|temp)'",
    ),
    (
        """CASE c.relkind WHEN 'i' THEN 'index ' WHEN 'I' THEN 'index ' WHEN 'S' THEN 'sequence ' WHEN 'v' THEN 'view '
            WHEN 'm' THEN 'materialized view ' WHEN 'c' THEN 'type ' ELSE 'table ' END || c.oid::regclass::text""",
        f"""c.relkind, c.relowner, {_RIGHTS_OF_RELATION}, c.reloptions, c.relpersistence, c.reltablespace, c.relam,
            c.relrowsecurity, c.relforcerowsecurity, c.relreplident, c.relispartition, c.relispopulated,
            c.reloftype::regtype, {_tree("c.relpartbound")},
            (SELECT t.reloptions FROM pg_catalog.pg_class AS t WHERE t.oid = c.reltoastrelid),
            (SELECT {_rights("t.typacl", "'T'", "t.typowner")} FROM pg_catalog.pg_type AS t WHERE t.oid = c.reltype),
            {_COLUMNS}, {_CONSTRAINTS}, {_TRIGGERS}, {_TRIGGERS_OF_KEYS}, {_INDEX}, {_RULES}, {_POLICIES},
            {_PARENTS}, {_PARTITIONED_BY}, {_SEQUENCE}, {_OWNER_OF_SEQUENCE}, {_FOREIGN}, {_said("c", "pg_class")}""",
        f"pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE {_NOT_SYSTEMS}",
    ),
    (
        "'function ' || p.oid::regprocedure::text",
        f"""{
            _row(
                "p",
                "pronamespace",
                "prolang",
                "provariadic",
                "prorettype",
                "proargtypes",
                "proallargtypes",
                "proargdefaults",
                "prosqlbody",
                "proacl",
            )
        }, {
            _rights("p.proacl", "'f'", "p.proowner")
        }, (SELECT l.lanname FROM pg_catalog.pg_language AS l WHERE l.oid = p.prolang), p.provariadic::regtype,
            p.prorettype::regtype, p.proallargtypes::regtype[]::text, {_tree("p.proargdefaults")},
            {_tree("p.prosqlbody")},
            {
            _all(
                f"{_row('a', 'aggfnoid', 'aggtranstype', 'aggmtranstype')}, a.aggtranstype::regtype, "
                "a.aggmtranstype::regtype",
                "a.aggfnoid",
                "pg_aggregate AS a WHERE a.aggfnoid = p.oid",
            )
        }, {_said("p", "pg_proc")}""",
        f"pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace WHERE {_NOT_SYSTEMS}",
    ),
    (
        "'statistics ' || pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(s.stxname)",
        f"""{_row("s", "stxrelid", "stxnamespace", "stxexprs")}, s.stxrelid::regclass,
            {_tree("s.stxexprs")}, {_said("s", "pg_statistic_ext")}""",
        "pg_statistic_ext AS s JOIN pg_catalog.pg_namespace AS n ON n.oid = s.stxnamespace",
    ),
    (
        "'type ' || t.oid::regtype::text",
        f"""t.typowner, {_rights("t.typacl", "'T'", "t.typowner")}, t.typtype, t.typbasetype::regtype,
            t.typtypmod, t.typnotnull, t.typndims, t.typcollation::regcollation, t.typdefault, t.typinput,
            t.typoutput, t.typreceive, t.typsend, t.typmodin, t.typmodout, t.typanalyze,
            t.typlen, t.typalign, t.typstorage, t.typcategory, t.typispreferred,
            {_all("e.enumlabel", "e.enumsortorder", "pg_enum AS e WHERE e.enumtypid = t.oid")},
            {_all("r.rngsubtype::regtype", "r.rngtypid", "pg_range AS r WHERE r.rngtypid = t.oid")},
            {_all(_CONSTRAINT, "k.conname", "pg_constraint AS k WHERE k.contypid = t.oid")}, {_said("t", "pg_type")}""",
        f"""pg_type AS t JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
            WHERE t.typrelid = 0 AND t.typcategory <> 'A' AND {_NOT_SYSTEMS}""",
    ),
    (
        "'operator ' || o.oid::regoperator::text",
        """o.oprowner, o.oprcode, o.oprrest, o.oprjoin, o.oprcom::regoperator, o.oprnegate::regoperator, o.oprcanmerge,
            o.oprcanhash""",
        f"pg_operator AS o WHERE o.oid >= {_FROM_HERE}",
    ),
    (
        """concat('operator class ', pg_catalog.quote_ident(n.nspname), '.', pg_catalog.quote_ident(o.opcname), ' for ',
            m.amname)""",
        "o.opcowner, o.opcintype::regtype, o.opcdefault, o.opckeytype::regtype",
        f"""pg_opclass AS o JOIN pg_catalog.pg_namespace AS n ON n.oid = o.opcnamespace
            JOIN pg_catalog.pg_am AS m ON m.oid = o.opcmethod WHERE o.oid >= {_FROM_HERE}""",
    ),
    (
        "concat('cast from ', o.castsource::regtype, ' to ', o.casttarget::regtype)",
        "o.castfunc::regprocedure, o.castcontext, o.castmethod",
        f"pg_cast AS o WHERE o.oid >= {_FROM_HERE}",
    ),
    (
        "'collation ' || o.oid::regcollation::text",
        f"{_row('o', 'collnamespace')}",
        f"pg_collation AS o WHERE o.oid >= {_FROM_HERE}",
    ),
    (
        "'text search configuration ' || o.oid::regconfig::text",
        f"""o.cfgowner, o.cfgparser,
            {
            _all(
                "m.maptokentype, m.mapseqno, m.mapdict::regdictionary",
                "m.maptokentype, m.mapseqno",
                "pg_ts_config_map AS m WHERE m.mapcfg = o.oid",
            )
        }""",
        f"pg_ts_config AS o WHERE o.oid >= {_FROM_HERE}",
    ),
    (
        "'text search dictionary ' || o.oid::regdictionary::text",
        "o.dictowner, o.dictinitoption",
        f"pg_ts_dict AS o WHERE o.oid >= {_FROM_HERE}",
    ),
    (
        "'publication ' || pg_catalog.quote_ident(o.pubname)",
        f"""{_row("o")},
            {
            _all(
                f"r.prrelid::regclass, {_row('r', 'prpubid', 'prrelid', 'prqual')}, {_tree('r.prqual')}",
                "r.prrelid::regclass::text",
                "pg_publication_rel AS r WHERE r.prpubid = o.oid",
            )
        }, {
            _all(
                "s.pnnspid::regnamespace",
                "s.pnnspid::regnamespace::text",
                "pg_publication_namespace AS s WHERE s.pnpubid = o.oid",
            )
        }""",
        "pg_publication AS o",
    ),
    (
        "'event trigger ' || pg_catalog.quote_ident(o.evtname)",
        f"{_row('o', 'evtfoid')}, o.evtfoid::regprocedure, {_said('o', 'pg_event_trigger')}",
        "pg_event_trigger AS o",
    ),
    (
        "'foreign data wrapper ' || pg_catalog.quote_ident(o.fdwname)",
        f"""o.fdwowner, o.fdwhandler::regprocedure, o.fdwvalidator::regprocedure,
            {_rights("o.fdwacl", "'F'", "o.fdwowner")}, o.fdwoptions""",
        "pg_foreign_data_wrapper AS o",
    ),
    (
        "'foreign server ' || pg_catalog.quote_ident(o.srvname)",
        f"""o.srvowner, o.srvtype, o.srvversion, {_rights("o.srvacl", "'S'", "o.srvowner")}, o.srvoptions,
            (SELECT w.fdwname FROM pg_catalog.pg_foreign_data_wrapper AS w WHERE w.oid = o.srvfdw)""",
        "pg_foreign_server AS o",
    ),
    (
        # What only its owner may see has passwords in it.
        "concat('user mapping of ', o.usename, ' for server ', pg_catalog.quote_ident(o.srvname))",
        "1",
        "pg_user_mappings AS o",
    ),
    (
        "'language ' || pg_catalog.quote_ident(o.lanname)",
        f"""o.lanowner, {_rights("o.lanacl", "'l'", "o.lanowner")}, o.lanpltrusted""",
        "pg_language AS o",
    ),
    (
        """concat_ws(' ', 'default privileges of', o.defaclrole::regrole::text, 'in schema ' || n.nspname, 'for',
            o.defaclobjtype::text)""",
        "o.defaclacl",
        "pg_default_acl AS o LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = o.defaclnamespace",
    ),
    (
        "'extension ' || pg_catalog.quote_ident(e.extname)",
        "e.extversion, e.extowner, e.extnamespace::regnamespace",
        "pg_extension AS e",
    ),
    (
        "concat('settings of ', 'role ' || r.rolname || ' in ', 'the database')",
        "s.setconfig",
        """pg_db_role_setting AS s JOIN pg_catalog.pg_database AS d ON d.oid = s.setdatabase
            LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = s.setrole
            WHERE d.datname = pg_catalog.current_database()""",
    ),
    (
        "'database ' || pg_catalog.quote_ident(d.datname)",
        f"""d.datdba, {_rights("d.datacl", "'d'", "d.datdba")}, d.datconnlimit, d.datallowconn,
            d.datistemplate, d.dattablespace""",
        "pg_database AS d WHERE d.datname = pg_catalog.current_database()",
    ),
)


def _select(name: str, definition: str, rest: str) -> str:
    digest = f"pg_catalog.left(pg_catalog.md5(pg_catalog.jsonb_build_array({definition})::text), 12)"
    if rest.startswith("pg_class AS c "):
        digest = f"concat({digest}, {_NUMBERED})"
    return f"SELECT {name}, {digest} FROM pg_catalog.{rest}"


# Rows of a name ("table public.orders") and a digest of the definition, behind which stand, of a table, its number and,
# as JSON, the numbers of its columns. It is for a session without a search path, so that each name stands with its
# schema.
DEFINITIONS = " UNION ALL ".join(_select(*parts) for parts in _OBJECTS)
