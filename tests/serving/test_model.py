from __future__ import annotations

from typing import Any

import pytest
import yaml

from orchestrator.config.fleet import Fleet
from orchestrator.errors import ConfigError
from orchestrator.serving.model import check_model_folder

DRAFT = (
    "{method: draft_model, model: demo:draft, num_speculative_tokens: 3,"
    " parallel_drafting: true, use_heterogeneous_vocab: true}"
)
EAGLE = "{method: eagle3, model: demo:eagle, num_speculative_tokens: 3}"


def fleet(speculation: str, source: str = "demo:target") -> Fleet:
    pools: dict[str, Any] = {
        "plain": {"speculation": {"method": "none"}},
        "p": {"speculation": yaml.safe_load(speculation)},
    }
    model = {"id": "m", "source": source}
    return Fleet.model_validate({"model": model, "accelerator": "gpu", "pools": pools})


@pytest.mark.parametrize("speculation", [DRAFT, EAGLE])
def test_the_demos_drafts_are_taken_as_they_were_trained(speculation: str) -> None:
    check_model_folder(fleet(speculation), "file")


@pytest.mark.parametrize(
    ("speculation", "found"),
    [
        (
            DRAFT.replace("demo:draft", "demo:eagle"),
            "`demo:eagle` is no model for this .*use demo:draft",
        ),
        (
            EAGLE.replace("demo:eagle", "demo:target"),
            "`demo:target` is no model for this .*use demo:eagle",
        ),
        (
            EAGLE.replace("eagle3", "eagle"),
            "`demo:eagle` is no model for this .*name another",
        ),
        (
            DRAFT.replace("parallel_drafting: true, ", ""),
            "pools.p.speculation.parallel_drafting: must be true for `demo:draft`",
        ),
        (
            DRAFT.replace("vocab: true", "vocab: false"),
            "pools.p.speculation.use_heterogeneous_vocab: must be true",
        ),
    ],
)
def test_another_use_of_a_demo_model_is_refused(speculation: str, found: str) -> None:
    with pytest.raises(ConfigError, match=found):
        check_model_folder(fleet(speculation), "file")


def test_the_demos_draft_is_for_its_target() -> None:
    found = r"pools\.p\.speculation\.model: `demo:eagle` drafts for demo:target, not"
    with pytest.raises(ConfigError, match=found):
        check_model_folder(fleet(EAGLE, source="/models/llama"), "file")


def test_a_draft_is_no_target() -> None:
    with pytest.raises(ConfigError, match=r"model\.source: .*use demo:target"):
        check_model_folder(fleet(EAGLE, source="demo:eagle"), "file")
