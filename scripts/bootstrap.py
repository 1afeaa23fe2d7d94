"""Make or refresh the virtual environment from a lock file; needs only the stdlib.

`python3 scripts/bootstrap.py [cpu|gpu|lock]`. uv installs; it is put into the
environment first. A stamp with the lock's hash makes a second run a matter of
milliseconds. `lock` resolves both lock files anew.
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

    uv reads no pip configuration. Of a setting that stands in several places pip takes
    one: the environment's, else that of the virtual environment, the user, the machine.
    """
    listing = subprocess.run(
        [python, "-m", "pip", "config", "list"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    rank = {"global": 0, "user": 1, "site": 2, "install": 3, ":env:": 4}
    found: dict[str, tuple[int, str]] = {}
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        here = rank.get(section, -1)
        if here >= found.get(name, (-1, ""))[0]:
            found[name] = here, str(ast.literal_eval(value))
    flags = {
        "index-url": "--default-index",
        "extra-index-url": "--index",
        "find-links": "--find-links",
    }
    options = [
        option
        for name, flag in flags.items()
        for word in dict.fromkeys(found.get(name, (0, ""))[1].split())
        for option in (flag, word)
    ]
    # pip takes the best version over all indexes; uv stops at the first that has one.
    return [*options, "--index-strategy", "unsafe-best-match"] if options else []


def make_venv(python: Path) -> None:
    """A virtual environment with pip, of the Python that runs this script.

    One that was interrupted, or is of another Python, is made anew.
    """
    probe = "import sys, pip; print(*sys.version_info[:2])"
    if python.exists():
        seen = subprocess.run([python, "-c", probe], capture_output=True, text=True)
        if seen.stdout.split() == [str(n) for n in sys.version_info[:2]]:
            return
    print("Creating .venv", flush=True)
    try:
        venv.create(VENV, with_pip=True, clear=True)
    except subprocess.CalledProcessError as error:
        shutil.rmtree(VENV, ignore_errors=True)
        sys.exit(
            "Python could not make a virtual environment. On Debian and Ubuntu install "
            f"python3-venv. {(error.output or b'').decode(errors='replace')}"
        )


def uv_command(python: Path) -> str:
    """The environment's own uv, of a version known to work, installed when absent."""
    uv = VENV / "bin" / "uv"
    if not uv.exists():
        print("Installing uv into .venv", flush=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", UV], check=True)
    return str(uv)


def run_for_torch(command: list[str], wanted: list[str]) -> None:
    """Run uv on something that wants torch's CPU build.

    No package index has that build but PyTorch's own, unless pip is configured with a
    place that has it: that place goes first.
    """
    if subprocess.run([*command, *wanted], capture_output=True).returncode != 0:
        subprocess.run([*command, "--torch-backend", "cpu", *wanted], check=True)


def install(profile: str) -> None:
    """Install the lock of `profile` and the project itself, editable."""
    python = VENV / "bin" / "python"
    make_venv(python)
    lock = ROOT / "requirements" / f"{profile}.lock"
    pip = [uv_command(python), "pip", "install", "--python", str(python), "--no-deps"]
    pip += index_options(python)
    if profile == "cpu":
        torch = [s for s in lock.read_text().splitlines() if s.startswith("torch==")]
        print(f"Installing {torch[0]}", flush=True)
        run_for_torch(pip, torch)
    print(f"Installing requirements/{profile}.lock (minutes, the first time)")
    sys.stdout.flush()
    subprocess.run([*pip, "-r", str(lock)], check=True)
    subprocess.run([*pip, "-e", str(ROOT)], check=True)


def lock() -> None:
    """Resolve both lock files from pyproject.toml: exact versions, no host, no path."""
    python = VENV / "bin" / "python"
    compile_ = [uv_command(python), "pip", "compile", str(ROOT / "pyproject.toml")]
    compile_ += ["--python-version", "3.11", "--no-header", "--no-annotate", "--quiet"]
    compile_ += ["--python-platform", "x86_64-manylinux_2_28", *index_options(python)]
    folder = ROOT / "requirements"
    cpu = ["--extra", "cpu", "--extra", "dev", "-o", str(folder / "cpu.lock")]
    cpu += ["--override", str(folder / "overrides-cpu.txt")]
    run_for_torch(compile_, cpu)
    gpu = ["--extra", "gpu", "-o", str(folder / "gpu.lock")]
    subprocess.run([*compile_, *gpu], check=True)


def main() -> int:
    """Run the command line; returns the exit code."""
    if sys.version_info < (3, 11):  # noqa: UP036 - an older Python is what it tells of
        print("Python 3.11 or newer is needed; set PYTHON=python3.11 (or newer).")
        return 2
    profile = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    if profile not in ("cpu", "gpu", "lock"):
        print(f"Unknown profile {profile!r}: cpu, gpu or lock.")
        return 2
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        print("The locks are made for Linux on x86_64 (vLLM has wheels for it).")
        return 2
    if profile == "lock":
        lock()
        return 0
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
