"""Files of an earlier run, found again by their names."""

from __future__ import annotations

import random

import pytest

from dovetail_sdk.matching_files import matched


@pytest.mark.parametrize(
    ("earlier", "files", "found"),
    [
        (["a/1.png", "a/2.png"], ["a/2.png", "a/1.png"], [1, 0]),
        (["a/1.png", "a/2.png"], ["./a/2.png", "a//3.png"], [1, None]),
        (["a/1.png", "a/2.png"], ["/moved/2.png", "/moved/1.png"], [1, 0]),
        (["a/x/1.png", "a/y/1.png"], ["b/y/1.png", "b/x/1.png"], [1, 0]),
        (["a/x/1.png", "a/y/1.png"], ["1.png"], [None]),
        (["a/1.png"], ["b/x/1.png", "b/y/1.png"], [None, None]),
        (["a/1.png", "/b/2.png"], ["2.png", "1.png"], [1, 0]),
        (["a/1.png", "a/1.png"], ["a/1.png"], [0]),
        (["a/1.png"], ["a/1.png", "a/1.png"], [0, 0]),
        (["a/1.png"], ["a/2.png"], [None]),
        (["", "."], ["."], [1]),
        ([], ["a"], [None]),
        (["a"], [], []),
    ],
)
def test_names(earlier: list[str], files: list[str], found: list[int | None]) -> None:
    assert matched(earlier, files) == found


def test_a_folder_that_moved_in_any_order() -> None:
    rng = random.Random(2)
    for _ in range(200):
        below = list({f"{rng.choice('xyz')}/{rng.randrange(9)}.png" for _ in range(rng.randint(1, 20))})
        earlier = [f"old/{name}" for name in below]
        order = rng.sample(range(len(below)), rng.randint(1, len(below)))
        files = [f"/new/folder/{below[at]}" for at in order]
        found = matched(earlier, files)
        assert all(
            place is None or earlier[place].rpartition("/")[2] == file.rpartition("/")[2]
            for place, file in zip(found, files, strict=True)
        )
        if len(order) == len(below):
            assert found == order
