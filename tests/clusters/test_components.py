"""Groups are made of joins, and the word of people over them, whatever came first."""

from hypothesis import given
from hypothesis import strategies as st

from dlqadmin.clusters.components import partition, root_of

names = st.sampled_from("abcdefgh")
pairs = st.lists(st.tuples(names, names).filter(lambda pair: pair[0] != pair[1]), max_size=5)
joins = st.dictionaries(st.sampled_from("12345"), st.lists(names, min_size=1, max_size=4), max_size=5)


def test_names_that_share_a_key_are_one_group_and_keys_chain_them() -> None:
    assert partition({"1": ["c", "b"], "2": ["c", "d"], "3": ["x", "y"]}) == {
        "b": "b",
        "c": "b",
        "d": "b",
        "x": "x",
        "y": "x",
    }


def test_the_word_of_people_overrides_a_join() -> None:
    assert partition({"1": ["a", "b", "c"]}, different=[("a", "b")]) == {"a": "a", "b": "b", "c": "a"}
    assert partition({"1": ["a", "b"]}, same=[("b", "c")], different=[("a", "c")]) == {
        "a": "a",
        "b": "b",
        "c": "b",
    }


def test_what_is_said_to_be_different_does_not_meet_over_a_third() -> None:
    found = partition({"1": ["a", "b"], "2": ["b", "c"]}, different=[("a", "c")])
    assert found["a"] != found["c"]


@given(joins, pairs, pairs, st.randoms())
def test_the_partition_is_the_same_for_any_order_and_keeps_apart_what_people_told_apart(
    joins, same, different, luck
) -> None:
    found = partition(joins, same, different)
    keys = list(joins)
    for some in (keys, same, different):
        luck.shuffle(some)
    assert (
        partition({key: luck.sample(joins[key], len(joins[key])) for key in keys}, same, different) == found
    )
    assert all(found[one] != found[other] for one, other in different)
    assert all(name >= least for name, least in found.items())
    if not different:
        assert all(found[one] == found[other] for one, other in same)


def test_the_root_is_what_people_worked_on_last_else_the_smallest() -> None:
    assert root_of(["c", "b", "a"], {}) == "a"
    assert root_of(["a", "b", "c"], {"c": 2, "b": 1, "a": None}) == "c"
