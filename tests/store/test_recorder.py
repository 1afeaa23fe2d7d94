import json
from pathlib import Path

import pytest

from orchestrator.records import Outcome
from orchestrator.store import recorder
from orchestrator.store.recorder import OutcomeRecorder, outcomes_dir


def outcome(request_id: str) -> Outcome:
    known = {"request_id": request_id, "acceptance_histogram": (1, 2), "rule": "代码"}
    return Outcome(
        **{name: known.get(name) for name in Outcome.__dataclass_fields__}  # type: ignore[arg-type]
    )


def test_one_line_each_in_order(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "outcomes.jsonl"
    sink = OutcomeRecorder(path)
    for i in range(100):
        sink.record(outcome(str(i)))
    sink.close()
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [row["request_id"] for row in rows] == [str(i) for i in range(100)]
    assert rows[0]["acceptance_histogram"] == [1, 2]
    assert rows[0]["rule"] == "代码"
    assert set(rows[0]) == set(Outcome.__dataclass_fields__)


def test_a_full_file_is_rotated(tmp_path: Path) -> None:
    sink = OutcomeRecorder(tmp_path / "o.jsonl", max_bytes=2000)
    for i in range(20):
        sink.record(outcome(str(i)))
        sink._write()  # as batches of one
    sink.close()
    assert (tmp_path / "o.jsonl.1").exists()
    assert len(list(tmp_path.iterdir())) <= recorder.BACKUPS + 1


def test_a_full_queue_drops_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = OutcomeRecorder(tmp_path / "o.jsonl", capacity=2)
    sink.close()  # nobody reads the queue any more
    for i in range(5):
        sink.record(outcome(str(i)))
    assert sink.dropped == 3


def test_a_full_disk_is_counted(tmp_path: Path) -> None:
    (tmp_path / "o.jsonl").symlink_to("/dev/full")
    sink = OutcomeRecorder(tmp_path / "o.jsonl")
    for i in range(3):
        sink.record(outcome(str(i)))
    sink.close()
    assert sink.dropped == 3


def test_the_folder_is_the_users_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCH_DATA_DIR", "/somewhere")
    assert outcomes_dir() == Path("/somewhere/outcomes")
    monkeypatch.delenv("ORCH_DATA_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert outcomes_dir() == Path("/state/spec-orchestrator/outcomes")
