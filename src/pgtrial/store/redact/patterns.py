"""What secrets, names of hosts, and statements look like, and the words around them that give them away."""

import re

# Settings of PostgreSQL, and keys of other tables, whose values are or may be secrets. Commands have them as arguments.
_SECRET_KEY = re.compile(
    r"(?i)(password|passwd|passphrase|secret|token|credential|api_?key|private_?key)|_command$|conninfo$"
)
_NO_SECRET_KEYS = ("password_encryption",)
_NO_SECRETS = ("", "(disabled)")  # what a command that is not set shows
HOST_KEYS = ("host", "hostaddr", "hostname", "listen_addresses", "bonjour_name", "remote_host")
NAME_KEYS = ("bonjour_name", "cluster_name")  # settings whose whole value is a name

_KEY = (
    r"\b(?!password_encryption)[\w.-]*"
    r"(?:password|passwd|passphrase|secret|token|credential|api_?key|access_?key|private_?key)[\w.-]*"
)
# The group is the secret.
SECRETS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        rf"{_KEY}[\"']?\s*[=:]\s*\"([^\"]+)\"",
        rf"{_KEY}[\"']?\s*[=:]\s*'([^']+)'",
        rf"{_KEY}\s*=\s*([^\s\"',;&)}}\]]+)",
        rf"{_KEY}:\s+([^\s\"',;&)}}\]]{{3,}})",  # a header, or a line of YAML
        rf"(?<!\w)--(?!no-){_KEY}\s+([^\s\"'-][^\s\"']*)",  # arguments of a command
        r"\bsshpass\s+-p\s*([^\s\"']+)",
        r"\b\w*pwd\s*=\s*([^\s\"',;&)}\]/][^\s\"',;&)}\]]*)",  # a path is the working directory
        r"\bPASSWORD\s+E?'((?:[^']|'')+)'",  # CREATE ROLE … PASSWORD '…'
        r"\bPASSWORD\s+\$\w*\$([^$]+)\$",
        r"://[^/@\s:'\"]*:([^/@\s'\"]+)@",
        r"\b(?:Bearer|Basic)\s+([\w.~+/=-]{8,})",
        r"\b((?:AKIA|ASIA)[0-9A-Z]{16})\b",
        r"\b((?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|sk-|hf_|npm_|pypi-)[\w-]{16,})",
        r"\b(md5[0-9a-f]{32})\b",
        r"\b(SCRAM-SHA-256\$[\w+/=:$]+)",
        r"\b(ey[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})",  # a JSON web token
        r"(-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z))",
    )
)
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"
_NAME = rf"{_LABEL}(?:\.{_LABEL})*"
NAME = re.compile(rf"(?=.*[A-Za-z]){_NAME}")
# The group is a name, or several with commas between them.
HOSTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:host|hostaddr|hostname|remote_host)\s*=\s*[\"']?({_NAME}(?:,{_NAME})*)",
        rf"\b[a-z][a-z0-9+.-]*://(?:[^/@\s]*@)?({_NAME})(?![^/\s]*@)",
        rf"\b(?:host|host name|hostname|server at|resolve)\s+[\"“«']({_NAME})[\"”»']",
        rf"\b[\w.+-]+@({_NAME})",
        rf"\A({_NAME}):/(?!/)",  # a file system of the network
    )
)
# Names that tell nothing, and words that stand where a name of a host could.
NO_HOSTS = frozenset(
    {
        "localhost",
        "localhost.localdomain",
        "ip6-localhost",
        "all",
        "on",
        "off",
        "yes",
        "no",
        "true",
        "false",
        "none",
        "null",
    }
)
IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)")
IPV6 = re.compile(
    r"(?<![\w:.])(?:[0-9a-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9a-f]{1,4})?(?![\w:])", re.IGNORECASE
)
BRACKETS = re.compile(r"\[(host\d+)\]")  # a name has none, as an IPv6 address had
USERS = (
    (re.compile(r"(://)[^/@\s:'\"]+(?=(?::[^/@\s]*)?@)"), r"\1user"),
    (re.compile(r"\b(user\s*=\s*)(?:'[^']*'|\"[^\"]*\"|[^\s'&\"]+)"), r"\1user"),
    (re.compile(r"(?<![\w.+:-])[\w.+-]+(?=@host\d)"), "user"),
    (re.compile(r"(/home/|/Users/)[^/\s'\"]+"), r"\1user"),
)
# The second group is, or quotes, a statement.
STATEMENTS = (
    re.compile(r"(\bLINE \d+: )([^\n]+(?:\n *\^)?)"),
    re.compile(r"(\b(?:STATEMENT|statement|QUERY|query|Query was|CONTEXT|execute [^:\n]{1,60}): +)([^\n]+)"),
)
MESSAGES = re.compile(r"(\b(?:ERROR|FATAL|PANIC|DETAIL): +)([^\n]+)")  # of a server, which quote names and values


def is_secret_key(key: str, value: str) -> bool:
    """Whether what is called so is to be taken for a secret as a whole."""
    return key.lower() not in _NO_SECRET_KEYS and value not in _NO_SECRETS and _SECRET_KEY.search(key) is not None


def host_names(text: str) -> tuple[str, ...]:
    """A name of a machine and, of a name with dots, its first part; () of what is none. Addresses have a form of their
    own and are found by that.
    """
    whole = text.strip().strip("[]").rstrip(".").lower()
    parts = dict.fromkeys((whole, whole.partition(".")[0]))
    return tuple(each for each in parts if len(each) > 1 and NAME.fullmatch(each) and each not in NO_HOSTS)
