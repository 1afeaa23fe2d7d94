"""A model folder that is built once: complete or absent, never half written."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrator.errors import ModelBuildError

MANIFEST = "manifest.json"
#: Version of the manifest's layout; a folder with another version is built anew.
FORMAT = 1

#: Told what is being done now, in words for a person.
Progress = Callable[[str], None]


def silent(step: str) -> None:
    """A `Progress` that shows nothing."""


def models_dir() -> Path:
    """The folder of all models: `ORCH_MODELS_DIR`, else in the user's cache."""
    if chosen := os.environ.get("ORCH_MODELS_DIR"):
        return Path(chosen).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser().absolute() / "spec-orchestrator" / "models"


def read_manifest(path: Path) -> dict[str, Any] | None:
    """The manifest of the model folder `path`; None if it is absent or unreadable."""
    try:
        manifest = json.loads((path / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) else None


def is_built(path: Path, facts: dict[str, Any] | None = None) -> bool:
    """Whether `path` holds a whole model: every file of its manifest, in its size.

    With `facts`, also whether it was made from the same `source`. Sizes only, so that
    the answer takes milliseconds; the manifest's checksums serve whoever doubts the
    disk.
    """
    manifest = read_manifest(path)
    if manifest is None or manifest.get("format") != FORMAT:
        return False
    if facts is not None and manifest.get("source") != facts.get("source"):
        return False
    files = manifest.get("files", {})
    return bool(files) and all(
        (path / name).is_file() and (path / name).stat().st_size == facts["size"]
        for name, facts in files.items()
    )


def build_once(
    path: Path,
    write: Callable[[Path], None],
    facts: dict[str, Any],
    progress: Progress = silent,
    *,
    force: bool = False,
) -> bool:
    """Let `write` fill a new folder and put it at `path`, unless it is built already
    from the same `source` of `facts`.

    Several processes may call this at once: one builds, the others wait and find the
    model ready. `facts` (origin, licence, ...) join the manifest. Returns whether this
    call built it. Raises `ModelBuildError` when the file system does not let it.
    """
    if is_built(path, facts) and not force:
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _lock(path, progress):
            if is_built(path, facts) and not force:
                return False
            _build(path, write, facts, progress)
    except OSError as error:
        raise ModelBuildError(_advice(path, error)) from error
    return True


def _build(
    path: Path,
    write: Callable[[Path], None],
    facts: dict[str, Any],
    progress: Progress,
) -> None:
    # Only the holder of the lock has such folders, so these are a killed build's.
    for leftover in path.parent.glob(f".{path.name}.build-*"):
        shutil.rmtree(leftover)
    work = Path(tempfile.mkdtemp(prefix=f".{path.name}.build-", dir=path.parent))
    try:
        new, old = work / "new", work / "old"
        new.mkdir()
        write(new)
        progress("Computing checksums")
        files = {
            str(file.relative_to(new)): {
                "size": file.stat().st_size,
                "sha256": _sha256(file),
            }
            for file in sorted(new.rglob("*"))
            if file.is_file()
        }
        manifest = {"format": FORMAT, **facts, "files": files}
        (new / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
        for name in files:
            (new / name).chmod(0o644)  # safetensors writes files for the owner only
        for entry in [*new.rglob("*"), new]:
            _fsync(entry)
        if path.exists():
            path.rename(old)
        new.rename(path)
        _fsync(path.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _lock(path: Path, progress: Progress) -> Iterator[None]:
    """Hold the build lock of `path`; the system drops it when the holder dies."""
    with (path.parent / f".{path.name}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("Waiting for another process that builds this model")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _sha256(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _advice(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = "Free some space there"
    else:
        remedy = "Make the folder writable"
    return (
        f"Could not build the model in {path.parent}: {error}. "
        f"{remedy}, or set ORCH_MODELS_DIR to another folder."
    )
