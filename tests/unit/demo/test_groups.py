"""The groups of a grid of ranks, as Megatron makes them."""

from hangtop.demo.job.nccl.groups import GroupSizes


def test_ranks_of_a_tensor_group_are_next_to_each_other() -> None:
    sizes = GroupSizes(tensor=2, data=2, pipeline=2)
    assert sizes.lines("tensor") == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert sizes.lines("data") == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert sizes.lines("pipeline") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert sizes.lines("tensor+pipeline") == [[0, 1, 4, 5], [2, 3, 6, 7]]
