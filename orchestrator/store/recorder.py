"""Writes one JSON line per outcome to a rotating file, off the request's path."""

from __future__ import annotations

import contextlib
import json
import logging
import logging.handlers
import os
import threading
from collections import deque
from dataclasses import asdict
from pathlib import Path

from orchestrator.records import Outcome

#: A file is rotated at this size; with the backups a replica keeps at most 600 MB.
MAX_BYTES = 100_000_000
BACKUPS = 5
#: Seconds for which outcomes gather before they are written together.
GATHER_S = 0.02


def outcomes_dir() -> Path:
    """Where outcome files go: `ORCH_DATA_DIR`, else the user's state folder."""
    root = os.environ.get("ORCH_DATA_DIR")
    if root:
        return Path(root) / "outcomes"
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "spec-orchestrator" / "outcomes"


class OutcomeRecorder:
    """A bounded hand-over to a thread that writes, many outcomes at a time.

    `record` never blocks and never raises. An outcome is lost where the queue or the
    disk is full, which `dropped` counts, and where the process is killed within
    `GATHER_S` seconds. A restarted replica writes a new file: old ones are the
    operator's to delete.
    """

    def __init__(
        self, path: Path, *, capacity: int = 10_000, max_bytes: int = MAX_BYTES
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._capacity = capacity
        self._overflown = 0
        self._queue: deque[Outcome] = deque()
        self._file = _OutcomeFile(
            path,
            maxBytes=max_bytes,
            backupCount=BACKUPS,
            encoding="utf-8",
            errors="backslashreplace",  # one odd text must not cost a whole batch
        )
        self._wanted = threading.Event()
        self._closing = threading.Event()
        self._writer = threading.Thread(
            target=self._run, name="outcome-writer", daemon=True
        )
        self._writer.start()

    def record(self, outcome: Outcome) -> None:
        """Queue one outcome for writing."""
        if len(self._queue) >= self._capacity:
            self._overflown += 1
            return
        self._queue.append(outcome)
        # Waking the thread for each outcome costs several times what writing it does.
        if not self._wanted.is_set():
            self._wanted.set()

    @property
    def dropped(self) -> int:
        """Outcomes lost so far."""
        return self._overflown + self._file.failed

    def close(self) -> None:
        """Write what is queued and end the writer's thread."""
        self._closing.set()
        self._wanted.set()
        self._writer.join()
        with contextlib.suppress(OSError):  # of a full disk: counted already
            self._file.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wanted.wait()
            self._closing.wait(GATHER_S)
            self._wanted.clear()
            self._write()

    def _write(self) -> None:
        lines = []
        while self._queue:
            outcome = self._queue.popleft()
            lines.append(json.dumps(asdict(outcome), ensure_ascii=False))
        if lines:
            self._file.write(lines)


class _OutcomeFile(logging.handlers.RotatingFileHandler):
    """The standard library's rotation; counts what it can't write, with one log."""

    failed = 0
    _lines = 0

    def write(self, lines: list[str]) -> None:
        """Append the lines, and rotate where they make the file too large."""
        self._lines = len(lines)
        text = "\n".join(lines)
        self.handle(logging.LogRecord("outcome", logging.INFO, "", 0, text, None, None))

    def handleError(self, record: logging.LogRecord) -> None:
        """Called by the base class inside its `except`."""
        if not self.failed:
            logging.getLogger("ray.serve").exception("Outcomes can't be written")
        self.failed += self._lines
