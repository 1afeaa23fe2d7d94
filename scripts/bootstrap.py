"""Make or refresh the virtual environment from a lock file; needs only the stdlib.

`python3 scripts/bootstrap.py [cpu|gpu]`. uv installs; it is put into the environment
first when it is not on the PATH. A stamp with the lock's hash makes a second run a
matter of milliseconds.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
UV = "uv==0.13.9"


def stamp_of(profile: str) -> str:
    """Hash of everything that decides what the environment holds."""
    digest = hashlib.sha256(f"{profile} {sys.version} {ROOT}".encode())
    for name in (f"requirements/{profile}.lock", "pyproject.toml"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def index_options(python: Path) -> list[str]:
    """uv's options for the indexes and find-links folders that pip is configured with.

    uv reads no pip configuration; `pip config list` merges files and environment.
    """
    listing = subprocess.run(
        [python, "-m", "pip", "config", "list"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found: dict[str, list[str]] = {}
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        words = str(ast.literal_eval(value)).split()
        found.setdefault(key.rsplit(".", 1)[-1], []).extend(words)
    flags = {
        "index-url": "--default-index",
        "extra-index-url": "--index",
        "find-links": "--find-links",
    }
    options = [
        option
        for name, flag in flags.items()
        for word in dict.fromkeys(found.get(name, []))
        for option in (flag, word)
    ]
    # pip takes the best version over all indexes; uv stops at the first that has one.
    return [*options, "--index-strategy", "unsafe-best-match"] if options else []


def install(profile: str) -> None:
    """Install the lock of `profile` and the project itself, editable."""
    python = VENV / "bin" / "python"
    if not python.exists():
        print("Creating .venv", flush=True)
        venv.create(VENV, with_pip=True)
    uv = shutil.which("uv") or str(VENV / "bin" / "uv")
    if not Path(uv).exists():
        print("Installing uv into .venv", flush=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", UV], check=True)
    lock = ROOT / "requirements" / f"{profile}.lock"
    pip = [uv, "pip", "install", "--python", str(python), "--no-deps"]
    pip += index_options(python)
    if profile == "cpu":
        # The CPU build of torch is on no package index but PyTorch's own, unless
        # pip is configured with a place that has it: that place goes first.
        torch = next(
            line for line in lock.read_text().splitlines() if line.startswith("torch==")
        )
        print(f"Installing {torch}", flush=True)
        if subprocess.run([*pip, torch], capture_output=True).returncode != 0:
            subprocess.run([*pip, "--torch-backend", "cpu", torch], check=True)
    print(f"Installing requirements/{profile}.lock (minutes, the first time)")
    sys.stdout.flush()
    subprocess.run([*pip, "-r", str(lock)], check=True)
    subprocess.run([*pip, "-e", str(ROOT)], check=True)


def main() -> int:
    if sys.version_info < (3, 11):
        print("Python 3.11 or newer is needed; set PYTHON=python3.11 (or newer).")
        return 2
    profile = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    if profile not in ("cpu", "gpu"):
        print(f"Unknown profile {profile!r}: cpu or gpu.")
        return 2
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        print("The locks are made for Linux on x86_64 (vLLM has wheels for it).")
        return 2
    stamp = VENV / f".installed-{profile}"
    if stamp.exists() and stamp.read_text() == stamp_of(profile):
        return 0
    stamp.unlink(missing_ok=True)
    try:
        install(profile)
    except subprocess.CalledProcessError as error:
        print(f"Set-up failed: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return 1
    stamp.write_text(stamp_of(profile))
    return 0


if __name__ == "__main__":
    sys.exit(main())
