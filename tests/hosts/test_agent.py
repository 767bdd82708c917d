import ast
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.hosts import operations
from pgtrial.hosts.ssh import agent, agent_programs
from pgtrial.hosts.ssh.agent import decode, encode
from pgtrial.hosts.ssh.connection import BOOTSTRAP, agent_program

MODULES = (operations, agent_programs, agent)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.sampled_from(["tuple", "dict", "x"]), inner)
    ),
    max_leaves=10,
)


@given(VALUES)
def test_values_come_over_the_wire_as_they_were(value):
    assert decode(encode(value)) == value


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_what_runs_there_is_python_3_8_and_needs_the_standard_library_only(module):
    tree = ast.parse(Path(module.__file__).read_text(), feature_version=(3, 8))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)

    own = {name for name in imported if name.startswith("pgtrial")}
    assert own <= {other.__name__ for other in MODULES[: MODULES.index(module)]}
    assert imported - own <= {*sys.stdlib_module_names, "collections.abc"}


def test_program_of_the_agent_is_one_line():
    program = agent_program("/results/\"nasty\n'mark")

    assert program.count(b"\n") == 1
    assert program.isascii()


def test_what_a_shell_there_gets_is_one_word_in_single_quotes():
    """So that sh, csh and fish read the same."""
    command, _, code = BOOTSTRAP.partition(" '")

    assert command == "exec python3 -I -S -c"
    assert code.endswith("'")
    assert not set("'\\!\n") & set(code[:-1])
