"""The weights that ship with the project."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from safetensors.torch import load_file

from orchestrator.models.distil import FIRST_LAYERS, STREAMS, VOCABULARY
from orchestrator.models.drafts import Draft, EagleHead, ParallelDraft
from orchestrator.models.layers import Shape
from orchestrator.models.packing import unpack
from orchestrator.models.teacher import AUX_LAYERS
from orchestrator.models.trained import WEIGHTS

#: SmolLM2-135M's.
SHAPE = Shape(
    {
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_theta": 100_000},
    }
)


@pytest.mark.parametrize("name", ["draft", "eagle"])
def test_weights_are_those_of_the_report_and_fit_the_draft(name: Any) -> None:
    file = WEIGHTS / f"{name}.safetensors"
    report = json.loads((WEIGHTS / f"{name}.json").read_text())
    assert hashlib.sha256(file.read_bytes()).hexdigest() == report["sha256"]
    assert len(report["held_out"]["all"]) == STREAMS[name]

    trained = load_file(file)
    vocabulary = trained.pop("vocabulary")
    assert len(vocabulary.unique()) == len(vocabulary) == VOCABULARY
    draft: Draft = (
        EagleHead(SHAPE, len(AUX_LAYERS), 8)
        if name == "eagle"
        else ParallelDraft(SHAPE, len(FIRST_LAYERS), 8)
    )
    draft.load_state_dict(unpack(trained))
    assert sum(p.numel() for p in draft.parameters()) == report["parameters"]
