from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestrator.cli.models import app
from orchestrator.errors import ModelBuildError
from orchestrator.models import distil, target
from orchestrator.models.demo import NAMES, ensure_demo
from orchestrator.models.folder import (
    MANIFEST,
    build_once,
    is_built,
    models_dir,
    read_manifest,
)
from orchestrator.models.target import ensure_target, model_path

FACTS = {"model": "tiny", "license": "Apache-2.0"}
# The command line wraps and colours by the terminal; a test has none.
runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})


def write_tiny(folder: Path) -> None:
    (folder / "config.json").write_text("{}")
    (folder / "sub").mkdir()
    (folder / "sub" / "weights").write_bytes(b"x" * 100)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORCH_MODELS_DIR", str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture
def tiny_target(models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The target's path, with a conversion that takes no time."""

    def convert(gguf: Path, folder: Path, progress: Any) -> None:
        progress("Converting")
        write_tiny(folder)

    monkeypatch.setattr(target, "_find_gguf", lambda: Path("some.gguf"))
    monkeypatch.setattr(target, "_convert", convert)

    def join(kind: str, weights: Path, target: Path, folder: Path) -> None:
        assert is_built(target)
        write_tiny(folder)

    monkeypatch.setattr(distil, "join", join)
    return models / "target"


def test_the_folder_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ORCH_MODELS_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert models_dir() == tmp_path / ".cache" / "spec-orchestrator" / "models"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert models_dir() == tmp_path / "x" / "spec-orchestrator" / "models"
    monkeypatch.setenv("ORCH_MODELS_DIR", "~/mine")
    assert model_path("draft") == tmp_path / "mine" / "draft"
    assert not (tmp_path / "mine").exists()


def test_builds_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "tiny"
    assert not is_built(path)
    assert build_once(path, write_tiny, FACTS)
    assert is_built(path)
    assert not build_once(path, write_tiny, FACTS)
    assert build_once(path, write_tiny, FACTS, force=True)
    assert sorted(entry.name for entry in path.parent.iterdir()) == [
        ".tiny.lock",
        "tiny",
    ]


def test_what_was_made_of_something_else_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "tiny"
    assert build_once(path, write_tiny, {**FACTS, "source": {"weights": "a"}})
    assert not build_once(path, write_tiny, {**FACTS, "source": {"weights": "a"}})
    assert build_once(path, write_tiny, {**FACTS, "source": {"weights": "b"}})


def test_a_built_target_does_not_need_its_package_any_more(
    tiny_target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_target()
    monkeypatch.setattr(target, "_version", lambda package: None)
    before = (tiny_target / MANIFEST).stat().st_ino
    assert ensure_target() == tiny_target
    assert (tiny_target / MANIFEST).stat().st_ino == before


def test_a_draft_follows_its_target(
    tiny_target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the target's embedding."""
    path = ensure_demo("eagle")
    before = (path / MANIFEST).stat().st_ino
    assert ensure_demo("eagle") == path
    assert (path / MANIFEST).stat().st_ino == before
    monkeypatch.setattr(target, "_version", lambda package: "2")
    ensure_demo("target", force=True)
    ensure_demo("eagle")
    assert (path / MANIFEST).stat().st_ino != before


def test_an_unknown_demo_model_is_told() -> None:
    with pytest.raises(ModelBuildError, match=r"no demo model 'eagel'.*'draft'"):
        ensure_demo("eagel")


def test_manifest_tells_origin_sizes_and_checksums(tmp_path: Path) -> None:
    build_once(tmp_path / "tiny", write_tiny, FACTS)
    manifest = read_manifest(tmp_path / "tiny")
    assert manifest is not None
    assert manifest["license"] == "Apache-2.0"
    assert set(manifest["files"]) == {"config.json", "sub/weights"}
    assert manifest["files"]["sub/weights"]["size"] == 100
    assert manifest["files"]["config.json"]["sha256"].startswith("44136fa355b3678a")


@pytest.mark.parametrize("harm", ["manifest", "missing", "short", "garbled", "format"])
def test_a_harmed_folder_is_no_model_and_is_replaced(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "tiny"
    build_once(path, write_tiny, FACTS)
    if harm == "manifest":
        (path / MANIFEST).unlink()
    elif harm == "missing":
        (path / "config.json").unlink()
    elif harm == "short":
        (path / "sub" / "weights").write_bytes(b"x" * 99)
    elif harm == "garbled":
        (path / MANIFEST).write_text("{")
    else:
        manifest = json.loads((path / MANIFEST).read_text())
        (path / MANIFEST).write_text(json.dumps({**manifest, "format": 0}))
    assert not is_built(path)
    assert build_once(path, write_tiny, FACTS)
    assert is_built(path)


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        write_tiny(folder)
        raise ModelBuildError("no luck")

    with pytest.raises(ModelBuildError, match="no luck"):
        build_once(tmp_path / "tiny", fail, FACTS)
    assert [entry.name for entry in tmp_path.iterdir()] == [".tiny.lock"]


def test_a_failed_rebuild_keeps_the_old_model(tmp_path: Path) -> None:
    build_once(tmp_path / "tiny", write_tiny, FACTS)

    def fail(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ModelBuildError, match="Free some space"):
        build_once(tmp_path / "tiny", fail, FACTS, force=True)
    assert is_built(tmp_path / "tiny")


def test_a_place_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelBuildError, match="ORCH_MODELS_DIR"):
        build_once(tmp_path / "file" / "tiny", write_tiny, FACTS)


SLOW_BUILD = """
import sys, time
from pathlib import Path
from orchestrator.models.folder import build_once

def write(folder):
    (folder / "config.json").write_text("{}")
    print("half", flush=True)
    time.sleep(60)

build_once(Path(sys.argv[1]), write, {})
"""


def test_a_killed_build_is_never_taken_for_a_model(tmp_path: Path) -> None:
    path = tmp_path / "tiny"
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_BUILD, str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    ) as builder:
        assert builder.stdout is not None
        assert builder.stdout.readline() == b"half\n"
        builder.send_signal(signal.SIGKILL)
    assert list(tmp_path.glob(".tiny.build-*"))
    assert not is_built(path)
    assert build_once(path, write_tiny, FACTS)  # the lock died with its holder
    assert is_built(path)
    assert not list(tmp_path.glob(".tiny.build-*"))


def _build_and_tell(path: Path, start: Any, results: Any) -> None:
    def write(folder: Path) -> None:
        time.sleep(1)
        write_tiny(folder)

    steps: list[str] = []
    start.wait(timeout=20)
    built = build_once(path, write, FACTS, steps.append)
    results.put((built, is_built(path), "Waiting" in " ".join(steps)))


def test_of_two_builders_one_builds_and_the_other_waits(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    start = context.Barrier(2)
    builders = [
        context.Process(
            target=_build_and_tell, args=(tmp_path / "tiny", start, results)
        )
        for _ in range(2)
    ]
    for builder in builders:
        builder.start()
    told = sorted(results.get(timeout=20) for _ in builders)
    for builder in builders:
        builder.join(timeout=20)
    assert told == [(False, True, True), (True, True, False)]


def test_a_missing_package_names_the_way_out(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelBuildError, match="make setup"):
        ensure_target()
    assert not is_built(model_path())


def test_too_little_space_is_said_before_the_work(
    tiny_target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "NEEDED_BYTES", 10**18)
    with pytest.raises(ModelBuildError, match=r"needs .* MB"):
        ensure_target()


def test_command_builds_then_finds_it_ready(tiny_target: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    result = runner.invoke(app, ["build", "--json", str(report)])
    assert result.exit_code == 0
    assert f"Demo target built in 0 s: {tiny_target}" in result.stderr
    assert [told["built_now"] for told in json.loads(report.read_text())] == [True] * 3

    result = runner.invoke(app, ["build", "--json", str(report)])
    assert f"Demo target ready: {tiny_target}" in result.stderr
    told = json.loads(report.read_text())
    assert [model["built_now"] for model in told] == [False] * 3
    paths = [tiny_target.with_name(name) for name in NAMES]
    assert [model["path"] for model in told] == list(map(str, paths))
    assert {model["manifest"]["license"] for model in told} == {"Apache-2.0"}

    before = [(path / MANIFEST).stat().st_mtime_ns for path in paths]
    assert "built in" in runner.invoke(app, ["build", "--force"]).stderr
    after = [(path / MANIFEST).stat().st_mtime_ns for path in paths]
    assert all(new > old for new, old in zip(after, before, strict=True))


def test_command_lists_what_is_built(tiny_target: Path) -> None:
    assert "No models in" in runner.invoke(app, ["list"]).stdout
    runner.invoke(app, ["build"])
    shown = runner.invoke(app, ["list"]).stdout
    assert "SmolLM2-135M-Instruct, EAGLE-3 head" in shown
    assert "Apache-2.0" in shown


def test_ready_needs_no_torch(tiny_target: Path) -> None:
    runner.invoke(app, ["build"])
    code = (
        "import sys; from orchestrator.cli.models import app\n"
        "app(['build'], standalone_mode=False)\n"
        "assert not {'torch', 'transformers', 'vllm', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.engine
def test_the_real_target_stops_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    path = ensure_target()
    generation = json.loads((path / "generation_config.json").read_text())
    assert generation["eos_token_id"] == 2
    assert not {"temperature", "top_p", "top_k", "do_sample"} & set(generation)

    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    assert tokenizer.convert_ids_to_tokens(2) == tokenizer.eos_token == "<|im_end|>"
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=False
    )
    assert prompt.endswith(
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype="float32")
    tokens = tokenizer(prompt, return_tensors="pt")
    output = model.generate(**tokens, do_sample=False, max_new_tokens=40)
    answer = tokenizer.decode(output[0][tokens["input_ids"].shape[1] :])
    assert answer == "The capital of France is Paris.<|im_end|>"
