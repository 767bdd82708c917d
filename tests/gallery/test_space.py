"""The space that the files say they need for emulated disks."""

import re
from pathlib import Path

import pytest

from pgtrial.cli.checked import check_file
from pgtrial.units import parse_bytes

FOLDER = Path(__file__).parents[2] / "examples" / "gallery" / "c-disk-classes"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_the_space_for_images_is_what_the_file_says(path: Path) -> None:
    checked = check_file(path)
    variants = {arm.variant for arm in checked.plan.arms}
    images = sum(parse_bytes(dict(variant.filesystem)["size"]) for variant in variants)
    said = re.search(r"and ([0-9]+ GB) of space", path.read_text().partition("format = 1")[0])

    assert said is not None
    assert images <= parse_bytes(said[1].replace(" ", "")) <= 1.3 * images
