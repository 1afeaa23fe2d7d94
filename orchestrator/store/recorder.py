"""Writes one JSON line per outcome to a rotating file, off the request's path."""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import queue
from dataclasses import asdict
from pathlib import Path

from orchestrator.records import Outcome

#: A file is rotated at this size; with the backups a replica keeps at most 600 MB.
MAX_BYTES = 100_000_000
BACKUPS = 5


def outcomes_dir() -> Path:
    """Where outcome files go: `ORCH_DATA_DIR`, else the user's state folder."""
    root = os.environ.get("ORCH_DATA_DIR")
    if root:
        return Path(root) / "outcomes"
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "spec-orchestrator" / "outcomes"


class OutcomeRecorder:
    """A bounded hand-over to the standard library's rotating file handler.

    `record` never blocks and never raises. An outcome is lost where the queue or the
    disk is full; `dropped` counts them. A restarted replica writes a new file: old ones
    are the operator's to delete.
    """

    def __init__(
        self, path: Path, *, capacity: int = 10_000, max_bytes: int = MAX_BYTES
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._overflown = 0
        self._queue: queue.Queue[logging.LogRecord] = queue.Queue(capacity)
        handler = _OutcomeFile(
            path, maxBytes=max_bytes, backupCount=BACKUPS, encoding="utf-8"
        )
        handler.setFormatter(_JsonLine())
        self._listener = logging.handlers.QueueListener(self._queue, handler)
        self._handler = handler
        self._listener.start()

    def record(self, outcome: Outcome) -> None:
        """Queue one outcome for writing."""
        record = logging.LogRecord(
            "outcome", logging.INFO, "", 0, "%s", (outcome,), None
        )
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self._overflown += 1

    @property
    def dropped(self) -> int:
        """Outcomes lost so far."""
        return self._overflown + self._handler.failed

    def close(self) -> None:
        """Write what is queued and end the writer's thread."""
        self._listener.stop()
        self._handler.close()


class _OutcomeFile(logging.handlers.RotatingFileHandler):
    """Counts what it can't write, instead of a traceback for each on stderr."""

    failed = 0

    def handleError(self, record: logging.LogRecord) -> None:
        """Called by the base class inside its `except`."""
        if not self.failed:
            logging.getLogger("ray.serve").exception("Outcomes can't be written")
        self.failed += 1


class _JsonLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        assert isinstance(record.args, tuple)
        (outcome,) = record.args
        assert isinstance(outcome, Outcome)
        return json.dumps(asdict(outcome), ensure_ascii=False)
