"""Sweeps: their grids, their tasks' keys, the store, and the engine with workers that fail."""

import sqlite3
from concurrent.futures import Future

import pytest

from planner.batch import tasks
from planner.batch.engine import Engine
from planner.batch.grid import CHAIN, chains, points, size
from planner.batch.store import Store
from planner.batch.table import TIMINGS, frame
from planner.batch.tasks import FAILED, INVALID, task_of
from planner.errors import InputError
from planner.frontier.loading import load_frontier
from planner.frontier.space import build_space
from planner.schema.base import validate
from planner.schema.sweep import Grid, Options, Sweep

#: A frontier problem that is solved in some hundredths of a second.
SMALL = {"layers": 4, "width": 512, "batch.factor": 0.01, "months": 1e-3, "most_doublings": 5}


def sweep_of(axes, **keys):
    document = {"schema": 1, "name": "small", "problem": "frontier-h100-dense", "set": SMALL, "axes": axes} | keys
    return validate(Sweep, document, "sweep")


class Here:
    """Workers that solve in this process; ``failures`` is how many attempts at each position fail first."""

    count = 2

    def __init__(self, failures=None):
        self.failures, self.solved, self.starts = dict(failures or {}), [], []

    def submit(self, task, start):
        future = Future()
        latency = task.document["problem"]["factors"]["latency"]
        if self.failures.get(latency, 0) > 0:
            self.failures[latency] -= 1
            future.set_exception(RuntimeError("worker died"))
        else:
            self.solved.append(latency)
            self.starts.append(start)
            future.set_result(tasks.run(task, start))
        return future

    def close(self, kill):
        pass


def run(sweep, path, workers=None, **options):
    workers = workers or Here()
    with Store(path) as store:
        state = Engine(sweep, store, lambda: workers, **options).run()
        return frame(sweep, state, store), state, workers


def test_a_grid_is_the_product_and_its_last_axis_is_cut_into_chains():
    sweep = sweep_of({"months": [1e-3, 2e-3], "latency": {"from": 1.0, "to": 19.0, "points": 19, "scale": "linear"}},
                     cases=[{"name": "a", "set": {"peak": 1.0}}, {"name": "b", "set": {"peak": 2.0}}])  # fmt: skip
    assert size(sweep) == 2 * 2 * 19
    found = list(points(sweep))
    assert [point.position for point in found] == list(range(76))
    assert found[0].labels == {"case": "a", "months": 1e-3, "latency": 1.0}
    assert found[-1].settings[-3:] == (("peak", 2.0), ("months", 2e-3), ("latency", 19.0))
    lengths = [len(chain) for chain in chains(sweep)]
    assert lengths == [CHAIN, CHAIN, 3] * 4


@pytest.mark.parametrize(
    ("grid", "values"),
    [
        ({"from": 1e22, "to": 1e24, "points": 3}, [1e22, 1e23, 1e24]),
        ({"from": 2, "to": 20, "factor": 2}, [2, 4, 8, 16]),
        ({"from": -1, "to": 1, "points": 3, "scale": "linear"}, [-1, 0, 1]),
    ],
)
def test_ranges(grid, values):
    assert Grid.model_validate(grid, strict=False).values() == pytest.approx(values)


def test_everything_wrong_with_a_sweep_is_said_at_once():
    with pytest.raises(InputError) as caught:
        validate(Sweep, {"schema": 1, "name": "x", "problem": [], "axes": {"a": {"from": 2, "to": 1, "points": 3}},
                         "options": {"gap": 2.0}, "more": 1}, "s.toml")  # fmt: skip
    text = "\n".join(caught.value.problems)
    assert all(word in text for word in ("problem", "contradictory limits", "options.gap", "more: is not a known key"))


def test_a_key_depends_on_the_content_and_on_nothing_else(tmp_path):
    def key(axes, **options):
        (point,) = points(sweep_of(axes))
        return task_of(point, Options(**options)).key

    assert key({"latency": [0.5]}) == key({"latency": [0.5]})
    assert key({"latency": [0.5]}) != key({"latency": [0.6]})
    assert key({"latency": [0.5]}) != key({"latency": [0.5]}, gap=0.01)
    assert key({"latency": [0.5]}) == key({"latency": [0.5]}, retries=7)


def test_the_store_keeps_the_latest_and_refuses_what_is_not_its_own(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        assert store.get("a") is None
        store.put("a", "solve", {"answer": {"status": FAILED}, "columns": None})
        store.put("a", "solve", {"answer": {"status": "optimal"}, "columns": {"tp": 8}})
    with Store(path) as store, Store(path) as other:
        assert store.get("a")["columns"] == {"tp": 8}
        other.put("b", "solve", {"answer": {"status": "optimal"}, "columns": None})
        assert store.get("b")["answer"]["status"] == "optimal"
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as database:
        database.execute("CREATE TABLE t (x)")
    for bad, said in ((foreign, "another program"), (tmp_path, "folder"), (tmp_path / "no" / "s", "no folder")):
        with pytest.raises(InputError, match=said):
            Store(bad)
    (tmp_path / "text").write_text("not a database, but longer than the header of one" * 10)
    with pytest.raises(InputError, match="store of results fails"):
        Store(tmp_path / "text")
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(InputError, match="newer version"):
        Store(path)


def test_a_full_disk_is_one_message_and_loses_nothing(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        store.put("a", "solve", {"answer": {"status": "optimal"}, "columns": None})
        pages = store.database.execute("PRAGMA page_count").fetchone()[0]
        store.database.execute(f"PRAGMA max_page_count = {pages}")
        big = {"answer": {"status": "optimal", "noise": [hash((i, "x")) for i in range(20000)]}, "columns": None}
        with pytest.raises(InputError, match="full; what it holds stays"):
            store.put("b", "solve", big)
        assert store.get("a") is not None
        assert store.get("b") is None


def test_chains_start_from_the_plan_before_and_resume_alike(tmp_path):
    sweep = sweep_of({"latency": [1.0, 0.5, 0.2, 0.1]})
    table, state, workers = run(sweep, tmp_path / "a")
    assert workers.solved == [1.0, 0.5, 0.2, 0.1]
    assert workers.starts[0] is None
    assert all(start["gpus"] == gpus for start, gpus in zip(workers.starts[1:], table["gpus"], strict=False))
    first, _, _ = run(sweep_of({"latency": [1.0, 0.5]}), tmp_path / "b")
    rest, resumed, later = run(sweep, tmp_path / "b")
    assert len(first) == 2
    assert resumed.progress.known == 2
    assert later.solved == [0.2, 0.1]
    assert later.starts[0]["gpus"] == table["gpus"][1]
    same = [column for column in table.columns if column not in TIMINGS]
    assert table[same].equals(rest[same])
    assert state.progress.done == 4


def test_changing_one_point_solves_only_that(tmp_path):
    run(sweep_of({"latency": [1.0, 0.5, 0.2]}), tmp_path / "s")
    _, _, workers = run(sweep_of({"latency": [1.0, 0.4, 0.2]}), tmp_path / "s")
    assert workers.solved == [0.4]


def test_a_dying_worker_is_tried_again_and_at_last_a_row_with_a_reason(tmp_path):
    sweep = sweep_of({"latency": [1.0, 0.5, 0.2]}, options={"retries": 2})
    table, state, _ = run(sweep, tmp_path / "s", Here({0.5: 2}))
    assert list(table["status"]) == ["optimal"] * 3
    assert state.progress.failed == 0
    table, state, _ = run(sweep, tmp_path / "t", Here({0.5: 3}))
    assert list(table["status"]) == ["optimal", FAILED, "optimal"]
    assert table["reason"][1] == "RuntimeError: worker died (3 attempts)"
    assert state.progress.failed == 1
    _, _, again = run(sweep, tmp_path / "t")
    assert again.solved == []
    mended, _, again = run(sweep, tmp_path / "t", retry_failed=True)
    assert again.solved == [0.5]
    assert list(mended["status"]) == ["optimal"] * 3


def test_a_problem_that_makes_no_sense_is_a_row_with_a_reason(tmp_path):
    sweep = sweep_of({"pp": [1, 7, 2]})
    table, state, _ = run(sweep, tmp_path / "s")
    assert list(table["status"]) == ["optimal", INVALID, "optimal"]
    assert "pp must divide the 4 layers" in table["reason"][1]
    assert state.progress.failed == 1
    table, state, _ = run(sweep_of({"nonsense": [1, 2]}), tmp_path / "s")
    assert list(table["status"]) == [INVALID] * 2
    assert "'nonsense' is not a known key" in table["reason"][0]


def test_an_engineered_problem_sweeps_too(tmp_path):
    document = {"schema": 1, "name": "runs", "problem": ["llama3-8b-8-h100", "frontier-h100-dense"],
                "set": {"sequence_length": 4096}, "options": {"gap": 0.05}}  # fmt: skip
    sweep = validate(Sweep, document, "sweep")

    class Anyone(Here):
        def submit(self, task, start):
            future = Future()
            future.set_result(tasks.run(task, start))
            return future

    table, _, _ = run(sweep, tmp_path / "s", Anyone())
    assert list(table["problem"]) == ["llama3-8b-8-h100", "frontier-h100-dense"]
    assert list(table["status"]) == ["optimal"] * 2
    assert table["step_time_s"][0] > 0
    assert table["months"][1] <= 3


def test_problems_that_differ_in_numbers_only_share_one_space():
    def space(*overrides):
        frontier = load_frontier("frontier-h100-dense", ["width=12288", *overrides])
        return build_space(frontier.problem, frontier.setting, frontier.sizes[:2], "problem")

    assert space() is space("latency=0.1", "network_bandwidth=3")
    assert space() is not space("width=14336")
    assert space() is not space("pp=[8, 16]")
