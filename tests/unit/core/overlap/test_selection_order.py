"""The covering candidate that a decision names, of several that cover equally."""

from apportion.core.overlap.selection_order import ALL, Discounted, DiscountedParts, Overlap

COPIES = Overlap(covers_of=[[], [], []], same=[0, 0, 0], copies={0: [0, 1, 2]})


def test_of_equal_copies_the_first_in_canonical_order_covers() -> None:
    order = Discounted(COPIES, [9, 9, 9])
    for index in (1, 0, 2):
        order.taken(index)
    assert order.covered[2] == (0, ALL)


def test_of_equal_parts_the_first_of_another_candidate_covers() -> None:
    order = DiscountedParts(["a", "b", "c"], COPIES, [9, 9, 9])
    for index in (1, 0, 2):
        order.taken(index)
    assert order.covered[2] == (0, ALL)
