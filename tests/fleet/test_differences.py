from pgtrial.fleet.differences import find_slow


def test_a_slow_host_is_named_and_no_other():
    (text,) = find_slow({"a": [10, 10], "b": [11, 10], "c": [30, 31]})

    assert text == "c is slow: a block takes it more than 1.5 times as long as the others."


def test_one_slow_block_says_nothing():
    assert list(find_slow({"a": [10, 10], "b": [30]})) == []


def test_a_host_alone_is_not_slow():
    assert list(find_slow({"a": [10, 50, 90]})) == []
