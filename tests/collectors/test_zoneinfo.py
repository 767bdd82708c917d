"""The parser of /proc/zoneinfo on text of an old kernel and of a new one, and what the sampler keeps of such a file."""

from pgtrial.collectors import proc

(ZONEINFO,) = (collector for collector in proc.COLLECTORS if collector.name == proc.ZONEINFO)

OLD = """\
Node 0, zone      DMA
  pages free     3975
        min      32
        low      40
        high     48
        scanned  0
        spanned  4095
        present  3998
        managed  3977
    nr_free_pages 3975
  pagesets
    cpu: 0
              count: 0
              high:  0
              batch: 1
  vm stats threshold: 2
"""
NEW = """\
Node 0, zone    DMA32
  per-node stats
      nr_inactive_anon 90256
  pages free     772918
        boost    0
        min      5195
        low      6493
        high     7791
        promo    9089
        spanned  1044480
        managed  772918
        protection: (0, 0, 6784, 6784, 6784)
      nr_free_pages 772918
      nr_free_cma  0
  pagesets
    cpu: 0
              count:    0
              high:     1149
              high_min: 3246
              high_max: 48307
  vm stats threshold: 24
  node_unreclaimable:  0
Node 1, zone   Normal
  pages free     0
        boost    64
        min      11674
        low      14592
        high     17510
"""


def values(text: str) -> dict[tuple[str, str], float]:
    return {(reading.metric, reading.object): reading.value for reading in ZONEINFO.parse(text)}


def test_watermarks_of_an_old_kernel() -> None:
    assert values(OLD) == {
        ("zoneinfo.free", "0/DMA"): 3975,
        ("zoneinfo.min", "0/DMA"): 32,
        ("zoneinfo.low", "0/DMA"): 40,
        ("zoneinfo.high", "0/DMA"): 48,
    }


def test_each_zone_of_each_node_has_its_own_and_other_numbers_are_not_taken_for_them() -> None:
    found = values(NEW)

    assert len(found) == 8
    assert found["zoneinfo.free", "0/DMA32"] == 772918
    assert found["zoneinfo.high", "0/DMA32"] == 7791
    assert found["zoneinfo.free", "1/Normal"] == 0
    assert found["zoneinfo.low", "1/Normal"] == 14592


def test_lines_that_are_kept_say_all_that_is_read() -> None:
    for text in (OLD, NEW):
        kept = "".join(line for line in text.splitlines(True) if line.startswith(ZONEINFO.lines))

        assert len(kept) < len(text) / 1.5
        assert values(kept) == values(text)
