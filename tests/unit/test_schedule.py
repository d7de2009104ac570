"""Orders of pipeline operations, deadlocks, messages, traces and pictures, by hand."""

import time

import numpy as np
import pytest

from planner.errors import InputError
from planner.physics.setting import Schedule
from planner.schedule.dualpipe import bidirectional, bidirectional_routes
from planner.schedule.engine import Durations, simulate
from planner.schedule.orders import Kind, Operation, orders
from planner.schedule.picture import COLUMNS, _boxes, draw
from planner.schedule.trace import trace_events


def spelled(order):
    """F0 B0 ... with the chunk after a dot where it is not the first."""
    letters = {Kind.FORWARD: "F", Kind.BACKWARD: "B", Kind.INPUT: "I", Kind.WEIGHT: "W"}
    return " ".join(
        letters[kind] + str(number) + (f".{chunk}" if chunk else "") + ("+" if joined else "")
        for kind, chunk, number, joined in order
    )


def test_one_forward_one_backward_by_hand():
    first, last = orders(Schedule.ONE_F_ONE_B, 2, 1, 3)
    assert spelled(first) == "F0 F1 B0 F2 B1 B2"
    assert spelled(last) == "F0 B0 F1 B1 F2 B2"


def test_gpipe_by_hand():
    assert [spelled(order) for order in orders(Schedule.GPIPE, 2, 1, 2)] == ["F0 F1 B0 B1"] * 2


def test_interleaving_by_hand():
    # Narayanan et al. 2021, figure 4, for two stages of two chunks: 2 (2 - 0 - 1) + (2 - 1) 2 = 4 passes warm up
    first, last = orders(Schedule.INTERLEAVED, 2, 2, 4)
    assert spelled(first) == "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3"
    assert spelled(last).startswith("F0 F1 F0.1 B0.1 F1.1 B1.1")


def test_zero_bubble_by_hand():
    first, last = orders(Schedule.ZERO_BUBBLE, 2, 1, 3)
    assert spelled(first) == "F0 F1 I0 W0 F2 I1 W1 I2 W2"
    assert spelled(last) == "F0 I0 F1 I1 W0 F2 I2 W1 W2"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((Schedule.GPIPE, 0, 1, 4), "pp = 0"), ((Schedule.GPIPE, 2, 1, 0), "micro-batches = 0"),
        ((Schedule.ONE_F_ONE_B, 2, 2, 4), "only an interleaved pipeline"),
        ((Schedule.INTERLEAVED, 4, 2, 6), "a multiple of pp = 4"),
    ],
)  # fmt: skip
def test_impossible_schedules(arguments, said):
    with pytest.raises(InputError, match=said):
        orders(*arguments)


def test_stages_that_wait_for_each_other_are_told():
    one = np.ones((2, 1))
    order = orders(Schedule.ONE_F_ONE_B, 2, 1, 2)
    order[0] = [Operation(Kind.BACKWARD, 0, 0), Operation(Kind.FORWARD, 0, 0)]
    with pytest.raises(
        InputError, match="wait for each other: stage 0 for the input of backward 0 of chunk 0, stage 1"
    ):
        simulate(order, Durations(one, one, one))


def test_a_pass_that_no_stage_runs_is_told():
    one = np.ones((2, 1))
    order = orders(Schedule.ONE_F_ONE_B, 2, 1, 2)
    order[0] = order[0][1:]
    with pytest.raises(InputError, match="wait for each other"):
        simulate(order, Durations(one, one, one))


def test_a_slow_stage_sets_the_pace():
    # three stages, the middle one twice as slow: it runs without a gap once it has begun, and the ends add their passes
    forward = np.array([[1.0], [2.0], [1.0]])
    timeline = simulate(orders(Schedule.GPIPE, 3, 1, 10), Durations(forward, forward, 0 * forward))
    assert timeline.makespan == pytest.approx(1 + 10 * 2 + 1 + 1 + 10 * 2 + 1)
    assert timeline.bubble[1] < timeline.bubble[0]


def test_the_trace_has_every_operation_in_microseconds():
    one = np.full((2, 1), 0.5)
    timeline = simulate(orders(Schedule.ONE_F_ONE_B, 2, 1, 3), Durations(one, one, one))
    events = [event for event in trace_events(timeline) if event["ph"] == "X"]
    assert len(events) == 12
    assert {event["dur"] for event in events} == {0.5e6, 1e6}
    assert max(event["ts"] + event["dur"] for event in events) == pytest.approx(timeline.makespan * 1e6)


def test_a_bidirectional_pipeline_by_hand():
    # two stages: nothing but pairs between the first passes and the last, and no gap at all
    first, last = bidirectional(2, 4)
    assert spelled(first) == "F0 F2.1 F1 B2.1 F3.1+ B0 B3.1 I1 W1"
    assert spelled(last) == "F2.1 F0 F3.1 B0 F1+ B2.1 B1 I3.1 W3.1"


def test_the_warm_up_of_a_bidirectional_pipeline():
    # 8 stages, 20 micro-batches (DeepSeek-V3 report, figure 5): an end warms up with 2 (4 - 1) passes of its own direction
    # and one of each; the middle with four of each; the drain ends with a gradient of weights
    order = bidirectional(8, 20)
    assert spelled(order[0][:10]) == "F0 F1 F2 F3 F4 F5 F6 F10.1 I10.1 W10.1"
    assert spelled(order[3][:8]) == "F0 F10.1 F1 F11.1 F2 F12.1 F3 F13.1"
    assert order[0][-1].kind is Kind.WEIGHT


@pytest.mark.parametrize(
    ("pp", "micro_batches", "said"), [(3, 12, "pp = 3"), (4, 6, "micro-batches = 6"), (4, 9, "at least 2 pp = 8")]
)
def test_impossible_bidirectional_pipelines(pp, micro_batches, said):
    with pytest.raises(InputError, match=said):
        bidirectional(pp, micro_batches)


def test_messages_keep_the_sender_and_travel():
    # forward 1 s; 0.25 s of sending keep stage 0, 0.5 s more on the way; the gradient comes back by a slower way
    one = np.ones((2, 1))
    sending = np.array([[0.0, 0.25], [0.125, 0.0]])
    transfer = np.array([[0.0, 0.5], [2.0, 0.0]])
    timeline = simulate(orders(Schedule.GPIPE, 2, 1, 2), Durations(one, one, 0 * one, transfer, sending))
    assert timeline.starts[0] == [0.0, 1.25, 7.125, 8.25]
    assert timeline.starts[1] == [1.75, 3.0, 4.0, 5.125]
    assert timeline.sent.tolist() == [0.5, 0.25]
    assert timeline.busy.tolist() == [4.0, 4.0]
    assert timeline.bubble == pytest.approx(1 - np.array([4.5, 4.25]) / 9.25)


def test_passes_that_run_together_take_their_joint_time_once():
    one = np.ones((2, 2))
    apart = simulate(bidirectional(2, 8), Durations(one, one, one), bidirectional_routes(2))
    joined = simulate(bidirectional(2, 8), Durations(one, one, one, joint=0.8), bidirectional_routes(2))
    pairs = sum(operation.joined for operation in joined.order[0])
    assert apart.busy.tolist() == [24.0, 24.0]
    assert joined.busy == pytest.approx(24.0 - pairs * 0.2 * 3)


def test_what_is_held_counts_the_bytes_of_each_chunk():
    # interleaved on two stages: stage 0 has F0 F1 F0.1 F1.1 F2 in flight before its first backward pass
    one = np.ones((2, 2))
    timeline = simulate(orders(Schedule.INTERLEAVED, 2, 2, 4), Durations(one, one, one))
    sizes = np.array([[3.0, 5.0], [1.0, 1.0]])
    assert timeline.most_held(sizes)[0] == 3 * 3.0 + 2 * 5.0
    assert timeline.most_in_flight()[0] == 5


def test_the_last_gradients_begin_with_the_last_micro_batch():
    one = np.ones((2, 1))
    timeline = simulate(orders(Schedule.ONE_F_ONE_B, 2, 1, 3), Durations(one, one, one))
    assert timeline.last_gradients().tolist() == [starts[-1] for starts in timeline.starts]


@pytest.mark.parametrize("schedule", [Schedule.GPIPE, Schedule.ONE_F_ONE_B, Schedule.ZERO_BUBBLE])
def test_a_large_pipeline_takes_two_seconds_at_most(schedule):
    one = np.ones((128, 1))
    begun = time.process_time()
    timeline = simulate(orders(schedule, 128, 1, 1024), Durations(one, one, one, 0.1, 0.1))
    assert time.process_time() - begun < 2.0
    assert timeline.makespan > 3 * 1024


def test_a_picture_of_many_operations_shows_what_takes_most_of_each_column(tmp_path):
    one = np.ones((8, 1))
    timeline = simulate(orders(Schedule.GPIPE, 8, 1, 2000), Durations(one, one, one))
    width = timeline.makespan / COLUMNS
    for stage in range(8):
        boxes = {kind: lengths[:, 1].sum() for (kind, _), lengths in _boxes(timeline, stage, separate=False).items()}
        assert boxes[Kind.FORWARD] == pytest.approx(2000, abs=width)
        assert boxes[Kind.BACKWARD] == pytest.approx(4000, abs=width)
    draw(timeline, tmp_path / "many.svg", "many")
    assert (tmp_path / "many.svg").stat().st_size < 100_000  # one box for each kind and stage


def test_a_picture_of_an_unknown_kind(tmp_path):
    one = np.ones((2, 1))
    timeline = simulate(orders(Schedule.ONE_F_ONE_B, 2, 1, 2), Durations(one, one, one))
    with pytest.raises(InputError, match=r"--picture .*many\.doc"):
        draw(timeline, tmp_path / "many.doc", "many")
