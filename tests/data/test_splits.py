"""The splits against their definitions written out user by user."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.data.splits import GivenPart, GivenRows, SplitParts, as_given, global_time, leave_one_out

Row = tuple[int, tuple[int, ...], int]


def rows_of(part: Examples) -> list[Row]:
    return [
        (int(part.users[m]), tuple(part.events[part.starts[m] : part.ends[m]].tolist()), int(part.targets[m]))
        for m in range(len(part))
    ]


def columns(log: list[tuple[int, int, int]]) -> tuple[IntArray, IntArray, IntArray]:
    table = np.array(log, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def check_shared(parts: SplitParts) -> None:
    for part in (parts.valid, parts.test):
        assert part.events is parts.train.events
        assert part.event_users is parts.train.event_users
    for part in (parts.train, parts.valid, parts.test):
        for m in range(len(part)):
            assert (part.event_users[part.starts[m] : part.ends[m]] == part.users[m]).all()


logs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.integers(0, 6)), max_size=60)


@settings(deadline=None)
@given(logs)
def test_global_time(log: list[tuple[int, int, int]]) -> None:
    users, items, times = columns(log)
    parts = global_time(users, items, times)
    expected: list[tuple[int, int, Row]] = []
    for user in sorted(set(users.tolist())):
        past: list[int] = []
        for source in sorted((i for i, entry in enumerate(log) if entry[0] == user), key=lambda i: (log[i][2], i)):
            if past:
                expected.append((log[source][2], source, (user, tuple(past), log[source][1])))
            past.append(log[source][1])
    expected.sort()
    n = len(expected)
    got = [rows_of(part) for part in (parts.train, parts.valid, parts.test)]
    assert [len(part) for part in got] == [n * 8 // 10, n * 9 // 10 - n * 8 // 10, n - n * 9 // 10]
    assert [row for part in got for row in part] == [row for _, _, row in expected]
    times_out = np.concatenate([parts.train.times, parts.valid.times, parts.test.times])
    assert times_out.tolist() == [time for time, _, _ in expected]
    check_shared(parts)


@settings(deadline=None)
@given(logs, st.booleans())
def test_leave_one_out(log: list[tuple[int, int, int]], dated: bool) -> None:
    users, items, times = columns(log)
    parts = leave_one_out(users, items, times if dated else None)
    train: list[Row] = []
    valid: list[Row] = []
    test: list[Row] = []
    for user in sorted(set(users.tolist())):
        own = [i for i, entry in enumerate(log) if entry[0] == user]
        own.sort(key=lambda i: (log[i][2] if dated else 0, i))
        sequence = [log[i][1] for i in own]
        for position in range(1, len(sequence)):
            row = (user, tuple(sequence[:position]), sequence[position])
            (test if position == len(sequence) - 1 else valid if position == len(sequence) - 2 else train).append(row)
    assert rows_of(parts.train) == train
    assert rows_of(parts.valid) == valid
    assert rows_of(parts.test) == test
    check_shared(parts)


def test_undated_times_are_positions() -> None:
    parts = leave_one_out(np.zeros(5, dtype=np.int64), np.arange(5, dtype=np.int64))
    assert (parts.train.times.tolist(), parts.valid.times.tolist(), parts.test.times.tolist()) == ([1, 2], [3], [4])


def test_as_given_keeps_rows_and_their_order() -> None:
    def part(rows: list[Row]) -> GivenPart:
        return GivenPart(
            np.array([user for user, _, _ in rows], dtype=np.int64),
            np.array([target for _, _, target in rows], dtype=np.int64),
            np.array([item for _, history, _ in rows for item in history], dtype=np.int64),
            np.array([len(history) for _, history, _ in rows], dtype=np.int64),
        )

    train: list[Row] = [(0, (4, 5), 6), (1, (1,), 2)]
    valid: list[Row] = [(0, (4, 5, 6), 7)]
    test: list[Row] = [(2, (9,), 9), (1, (1, 2), 3)]
    parts = as_given(GivenRows(part(train), part(valid), part(test)))
    assert [rows_of(parts.train), rows_of(parts.valid), rows_of(parts.test)] == [train, valid, test]
    again = as_given(GivenRows(part([(7, *row[1:]) for row in train]), part(valid), part(test)))
    assert again.train.users.tolist() == [0, 0], "users are numbered as they appear"
    assert np.concatenate([parts.train.times, parts.valid.times, parts.test.times]).tolist() == [0, 1, 2, 3, 4]
    check_shared(parts)
