"""What browsers are told to refuse, with each kind of answer.

The pages of the server itself have no inline script and no inline style; their scripts put texts into the page as text
only, to which Trusted Types hold them.

A report is another thing: one file, whose scripts stand in it, and a folder may come from anybody. Hashes of its
scripts would prove nothing, as a hostile script would be hashed like any other. So a report gets what it needs, inline
scripts, and lives in a sandbox: an origin of its own, which can read nothing of this server, load nothing, send no form
and open no window.
"""

_COMMON = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_REPORT = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_ENTRY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_DATA = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"

PAGE = {**_COMMON, "Content-Security-Policy": _PAGE}
REPORT = {**_COMMON, "Content-Security-Policy": _REPORT}
# Not in a sandbox: where the browser goes on from here, it has to be this site that it comes from.
ENTRY = {**_COMMON, "Content-Security-Policy": _ENTRY}
DATA = {**_COMMON, "Content-Security-Policy": _DATA}
