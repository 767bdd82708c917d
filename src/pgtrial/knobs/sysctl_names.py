"""Names of kernel settings as sysctl(8) writes them, and their files below /proc/sys."""

from pgtrial.errors import SettingError
from pgtrial.experiment_file.nearest import hint_name
from pgtrial.hosts.operations import Operations

ROOT = "/proc/sys"
_EXCHANGED = str.maketrans("./", "/.")
_DEEPEST = 6  # parts of a name; "net.ipv4.conf.eth0.rp_filter" has five


def find_file(ops: Operations, name: str) -> str:
    """The file of a setting. SettingError if there is none, with the nearest name that there is.

    As in sysctl(8), where the first separator is a dot, dots separate and slashes stand for dots, as in the name of a
    VLAN ("net.ipv4.conf.eth0/100.rp_filter"); else slashes separate. Dots in a part of a name are understood as well,
    where only one setting can be meant.
    """
    parts = _parts(name)
    if not parts or any(part in ("", ".", "..") or not part.isprintable() for part in parts):
        raise SettingError(f'"{name}" is not a name of a kernel setting', hint='Names are like "vm.swappiness".')
    path = "/".join((ROOT, *parts))
    if ops.is_directory(path):
        raise SettingError(f'"{name}" is a group of kernel settings, not one of them')
    if ops.exists(path):
        return path
    paths = _files(ops)
    meant = [each for each in paths if _dotted(each) == name.replace("/", ".")]
    if len(meant) == 1:
        return meant[0]
    raise SettingError(
        f'the kernel has no setting "{name}"',
        detail=f'There is no file "{path}".',
        hint=hint_name(name, [name_of(each) for each in paths]),
    )


def name_of(path: str) -> str:
    """The name as "sysctl -a" shows it."""
    return path.removeprefix(f"{ROOT}/").translate(_EXCHANGED)


def path_of(name: str) -> str:
    """The file of a name as "sysctl -a" shows it, whether it is there or not."""
    return f"{ROOT}/{name.translate(_EXCHANGED)}"


def _parts(name: str) -> list[str]:
    dot, slash = name.find("."), name.find("/")
    if slash < 0 or 0 <= dot < slash:
        return [part.replace("/", ".") for part in name.split(".")]
    return name.split("/")


def _dotted(path: str) -> str:
    return path.removeprefix(f"{ROOT}/").replace("/", ".")


def _files(ops: Operations) -> list[str]:
    found = {path for depth in range(1, _DEEPEST + 1) for path in ops.glob(ROOT + "/*" * depth)}
    directories = {path.rpartition("/")[0] for path in found}
    return sorted(found - directories)
