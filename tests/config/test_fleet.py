"""The fleet: every mistake told at once, where it stands, in words."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.config.fleet import Fleet
from orchestrator.config.modelcheck import check_model
from orchestrator.config.servefile import load_fleet, parse_args
from orchestrator.config.speculation import METHODS
from orchestrator.errors import ConfigError

CLUSTERS = Path(__file__).parents[2] / "clusters"


def args(more: str = "", **changes: Any) -> dict[str, Any]:
    fleet: dict[str, Any] = {
        "model": {"id": "m", "source": "demo:target"},
        "accelerator": "cpu",
        "pools": {"plain": {"speculation": {"method": "none"}}},
    }
    fleet["pools"] |= yaml.safe_load(more) or {}
    return {"fleet": fleet | changes}


def fleet(more: str = "", **changes: Any) -> Fleet:
    return parse_args(args(more, **changes)).fleet


def mistakes(more: str = "", **changes: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        fleet(more, **changes)
    return [str(p).removeprefix("fleet.") for p in caught.value.problems]


def test_the_shipped_fleets_load() -> None:
    for path in CLUSTERS.glob("*.yaml"):
        load_fleet(path)


def test_what_serving_needs() -> None:
    made = fleet(
        """
        ngram:
          speculation: {method: ngram, num_speculative_tokens: 5, prompt_lookup_max: 4}
          replicas: 2
          engine: {max_num_seqs: 8}
          cpu: {cores: 0.5}
        draft:
          speculation: {method: draft_model, model: d, num_speculative_tokens: 3}
          autoscaling: {min_replicas: 2, max_replicas: 3, target_ongoing_requests: 8}
        """,
        engine={"max_num_seqs": 16, "dtype": "bfloat16"},
        cpu={"cores": 2, "kv_cache_gib": 3},
    )
    assert made.speculative_config("plain") is None
    assert made.speculative_config("ngram") == {
        "method": "ngram",
        "num_speculative_tokens": 5,
        "prompt_lookup_max": 4,
    }
    assert made.speculative_config("draft") == {
        "method": "draft_model",
        "model": "d",
        "num_speculative_tokens": 3,
        "draft_tensor_parallel_size": 1,
    }
    assert made.engine_args("ngram") == {"max_num_seqs": 8, "dtype": "bfloat16"}
    assert made.cpu_share("plain").cores == 2
    assert (made.cpu_share("ngram").cores, made.cpu_share("ngram").kv_cache_gib) == (
        0.5,
        3,
    )
    assert made.pools["ngram"].serve_options() == {
        "max_ongoing_requests": 64,
        "max_queued_requests": 64,
        "num_replicas": 2,
    }
    assert made.pools["draft"].serve_options()["autoscaling_config"] == {
        "min_replicas": 2,
        "max_replicas": 3,
        "target_ongoing_requests": 8,
    }
    assert [p.start_replicas for p in made.pools.values()] == [1, 2, 2]
    traits = made.traits(cpu_sampling_mended=False)
    assert [(t.name, t.speculative, t.sampling) for t in traits.values()] == [
        ("plain", False, True),
        ("ngram", True, False),
        ("draft", True, False),
    ]
    assert all(t.sampling for t in made.traits().values())


def test_a_dump_is_the_same_fleet() -> None:
    made = fleet("n: {speculation: {method: ngram, num_speculative_tokens: 2}}")
    dump = made.model_dump(mode="json", exclude_unset=True, by_alias=True)
    assert Fleet.model_validate(dump) == made


@pytest.mark.parametrize(
    ("speculation", "message"),
    [
        ("{num_speculative_tokens: 3}", "method: is required (one of none, ngram"),
        ("{method: ngrm}", "method: unknown value `ngrm` (did you mean `ngram`?"),
        ("{method: medusa}", "vLLM has it, this version does not"),
        ("{method: Eagle-3}", "vLLM calls it `eagle3`"),
        ("ngram", "must be a mapping with `method` (write {method: ngram, ...})"),
        ("[ngram]", "must be a mapping, not a list"),
        ("{method: ngram}", "num_speculative_tokens: is required"),
        (
            "{method: ngram, num_speculative_tokens: 0}",
            "num_speculative_tokens: must be at least 1, not 0",
        ),
        (
            '{method: ngram, num_speculative_tokens: "5"}',
            'must be a whole number, not "5"',
        ),
        (
            "{method: ngram, num_speculative_tokens: true}",
            "must be a whole number, not true",
        ),
        (
            "{method: ngram, num_speculative_tokens: 5, prompt_lookup_min: 5,"
            " prompt_lookup_max: 3}",
            "prompt_lookup_min: must be at most prompt_lookup_max (3), not 5",
        ),
        (
            "{method: draft_model, num_speculative_tokens: 5}",
            "model: is required",
        ),
        (
            "{method: draft_model, num_speculative_tokens: 5, model: x,"
            " draft_tensor_parallel_size: 2}",
            "draft_tensor_parallel_size: must be the target's tensor_parallel_size (1)",
        ),
        (
            "{method: draft_model, num_speculative_tokens: 5, model: x,"
            " use_heterogeneous_vocab: true, draft_sample_method: probabilistic}",
            "draft_sample_method: must be greedy",
        ),
        ("{method: eagle3, num_speculative_tokens: 5}", "model: is required"),
        (
            "{method: none, prompt_lookup_max: 3}",
            "`prompt_lookup_max` (vLLM has it for method ngram, ngram_gpu)",
        ),
        (
            "{method: suffix, suffix_decoding_min_token_prob: 2}",
            "must be at most 1, not 2",
        ),
        (
            "{method: ngram, num_speculative_tokens: 3,"
            " num_speculative_tokens_per_batch_size: [[2, 4, 3]]}",
            "[0]: the first range must start at batch size 1",
        ),
        (
            "{method: ngram, num_speculative_tokens: 3,"
            " num_speculative_tokens_per_batch_size: [[1, 4, 3], [4, 2, -1]]}",
            "[1]: the batch sizes 4 to 2 are no range",
        ),
        (
            "{method: ngram, num_speculative_tokens: 3,"
            " num_speculative_tokens_per_batch_size: [[1, 4, 3], [4, 8, 2]]}",
            "[1]: overlaps the range [1, 4, 3]",
        ),
        (
            "{method: ngram_gpu, num_speculative_tokens: 3}",
            "`ngram_gpu` needs a GPU (use `ngram`)",
        ),
    ],
)
def test_speculation(speculation: str, message: str) -> None:
    assert any(message in m for m in mistakes(f"p: {{speculation: {speculation}}}"))


def test_foreign_names_are_told_all_at_once() -> None:
    found = mistakes(
        "p: {speculation: {algorithm: nld, n_gram_max_length: 4, num_draft_tokens: 5}}"
    )
    assert found == [
        "pools.p.speculation.algorithm: unknown field `algorithm`"
        " (in vLLM `algorithm: nld` is `method: ngram`)",
        "pools.p.speculation.n_gram_max_length: unknown field `n_gram_max_length`"
        " (vLLM calls it `prompt_lookup_max`)",
        "pools.p.speculation.num_draft_tokens: unknown field `num_draft_tokens`"
        " (vLLM calls it `num_speculative_tokens`)",
    ]


@pytest.mark.parametrize(
    "speculation",
    [
        "{method: suffix}",
        "{method: mtp, num_speculative_tokens: 1}",
        "{method: eagle, model: x, num_speculative_tokens: 2,"
        " draft_tensor_parallel_size: 1}",
        "{method: ngram, num_speculative_tokens: 4,"
        " num_speculative_tokens_per_batch_size: [[1, 4, 4], [5, 64, 0]]}",
    ],
)
def test_right_speculation(speculation: str) -> None:
    made = fleet(
        f"p: {{speculation: {speculation}}}",
        tensor_parallel_size=2,
        accelerator="H100",
    )
    assert made.speculative_config("p") == yaml.safe_load(speculation)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"engine": {"gpu_memory_utilization": 0.97}},
            "engine.gpu_memory_utilization: must be more than 0 and at most 0.95,"
            " not 0.97: loading and temporary buffers need the rest",
        ),
        ({"engine": {"enable_lora": True}}, "LoRA is refused for now"),
        ({"engine": {"max-model-len": 3}}, "write `max_model_len`"),
        ({"engine": {"speculative_config": {}}}, "comes from the pool's `speculation`"),
        ({"engine": {"speculative_model": "x"}}, "belongs in the pool's `speculation`"),
        ({"engine": {"tensor_parallel_size": 2}}, "the fleet's own field"),
        ({"accelerator": "CPU"}, "unknown accelerator `CPU` (did you mean `cpu`?)"),
        ({"accelerator": "H100", "cpu": {"cores": 1}}, "only for `accelerator: cpu`"),
        ({"cpu": {"threads_bind": "0|1"}}, "must name the cores of 1 rank(s)"),
        ({"env": {"A": 1}}, "env.A: must be text, not 1 (put it in quotes)"),
        ({"pools": {}}, "pools: must not be empty"),
        ({"tensor_parallel_sise": 2}, "did you mean `tensor_parallel_size`?"),
        ({"router": {"max_ongoing_requests": 0}}, "must be at least 1, not 0"),
        ({"model": {"id": "m"}}, "model.source: is required"),
        (
            {
                "pools": {
                    "n": {
                        "speculation": {"method": "ngram", "num_speculative_tokens": 1}
                    }
                }
            },
            "a pool without speculation is needed",
        ),
    ],
)
def test_fleet(changes: dict[str, Any], message: str) -> None:
    assert any(message in m for m in mistakes(**changes))


@pytest.mark.parametrize(
    ("own", "engine", "found"),
    [
        ("", {}, []),
        ("", {"max_model_len": 2048}, []),
        ("", {"max_model_len": 2048, "max_num_batched_tokens": 2048}, []),
        ("{enable_chunked_prefill: false}", {"long_prefill_token_threshold": 0}, []),
        (
            "",
            {"enable_chunked_prefill": True},
            [
                "engine.enable_chunked_prefill: must be false for `accelerator: cpu`:"
                " vLLM's CPU engine dies when a request with `seed` is prefilled in"
                " chunks (left out it is)"
            ],
        ),
        ("", {"enable_chunked_prefill": None}, ["must be false"]),
        (
            "{enable_chunked_prefill: true}",
            {"enable_chunked_prefill": False},
            ["pools.p.engine.enable_chunked_prefill: must be false"],
        ),
        (
            "{long_prefill_token_threshold: 256}",
            {},
            [
                "pools.p.engine.long_prefill_token_threshold: not for"
                " `accelerator: cpu`: vLLM's CPU engine dies"
            ],
        ),
        (
            "",
            {"max_model_len": 2048, "max_num_batched_tokens": 512},
            [
                "engine.max_num_batched_tokens: must be at least max_model_len (2048),"
                " not 512: a CPU engine here takes each prompt in one step"
                " (left out it is)"
            ],
        ),
        (
            "{max_model_len: 4096}",
            {"max_model_len": 2048, "max_num_batched_tokens": 2048},
            ["engine.max_num_batched_tokens: must be at least max_model_len (4096)"],
        ),
        (
            "{max_num_scheduled_tokens: 512}",
            {"max_model_len": 2048},
            ["pools.p.engine.max_num_scheduled_tokens: must be at least max_model_len"],
        ),
    ],
)
def test_a_cpu_engine_never_prefills_in_chunks(
    own: str, engine: dict[str, Any], found: list[str]
) -> None:
    pool = f"p: {{speculation: {{method: none}}, engine: {own or '{}'}}}"
    # On a GPU any of these may be.
    assert fleet(pool, engine=engine, accelerator="gpu").engine == engine
    if not found:
        assert fleet(pool, engine=engine).engine == engine
        return
    told = mistakes(pool, engine=engine)
    assert len(told) == len(found)
    assert all(part in message for part, message in zip(found, told, strict=True))


@pytest.mark.parametrize(
    ("speculation", "tokens", "needed"),
    [
        ("method: draft_model, model: m, parallel_drafting: true", 2050, 2051),
        ("method: draft_model, model: m, parallel_drafting: true", None, 2051),
        ("method: draft_model, model: m", 2048, 2049),
        ("method: eagle3, model: m, parallel_drafting: true", 2049, 2050),
    ],
)
def test_on_a_cpu_a_step_has_room_for_a_prompt_and_its_drafts(
    speculation: str, tokens: int | None, needed: int
) -> None:
    """vLLM would never schedule the longest prompt, nor any that came after it."""
    pool = f"p: {{speculation: {{{speculation}, num_speculative_tokens: 3}}}}"
    engine = {"max_model_len": 2048, "max_num_batched_tokens": tokens}
    with pytest.raises(ConfigError, match=f"must be at least {needed} for pool `p`"):
        fleet(pool, engine={k: v for k, v in engine.items() if v is not None})
    engine["max_num_batched_tokens"] = needed
    assert fleet(pool, engine=engine)
    eagle = "p: {speculation: {method: eagle3, model: m, num_speculative_tokens: 3}}"
    assert fleet(eagle, engine={"max_model_len": 2048})


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        ("Big: {speculation: {method: none}}", '"Big" is no valid name (a-z, 0-9, `-`'),
        (
            "p: {speculation: {method: none}, replicas: 1,"
            " autoscaling: {max_replicas: 2, target_ongoing_requests: 8}}",
            "`replicas` and `autoscaling` exclude each other",
        ),
        (
            "p: {speculation: {method: none},"
            " autoscaling:"
            " {min_replicas: 3, max_replicas: 2, target_ongoing_requests: 8}}",
            "autoscaling.min_replicas: must be at most max_replicas (2)",
        ),
        (
            "p: {speculation: {method: none},"
            " autoscaling:"
            " {initial_replicas: 3, max_replicas: 2, target_ongoing_requests: 8}}",
            "autoscaling.initial_replicas: must lie in 1 to 2",
        ),
        (
            "p: {speculation: {method: none}, autoscaling: {max_replicas: 2}}",
            "autoscaling.target_ongoing_requests: is required",
        ),
        (
            "p: {speculation: {method: none}, autoscaling:"
            " {min_replicas: 0, max_replicas: 2, target_ongoing_requests: 8}}",
            "autoscaling.min_replicas: ",
        ),
        ("p: {replicas: 1}", "pools.p.speculation: is required"),
    ],
)
def test_pools(pool: str, message: str) -> None:
    assert any(message in m for m in mistakes(pool))


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    return path


GOOD = """\
applications:
  - name: other
    import_path: x:y
  - name: llm
    import_path: orchestrator.serving.app:build_app
    args:
      fleet:
        model: {id: m, source: s}
        accelerator: gpu
        pools:
          plain: {speculation: {method: none}}
    deployments:
      - name: router
        user_config: {policy: default}
"""


def test_serve_file(tmp_path: Path) -> None:
    loaded = load_fleet(write(tmp_path, GOOD))
    assert (loaded.application, loaded.router.policy) == ("llm", "default")
    assert loaded.router.keys is None
    assert load_fleet(write(tmp_path, GOOD), "llm").fleet == loaded.fleet


def test_lines_point_into_the_serve_file(tmp_path: Path) -> None:
    text = GOOD.replace("accelerator: gpu", "accelerator: gpus").replace(
        "id: m", "di: m"
    )
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_fleet(path)
    where = "applications[1].args.fleet"
    shown = str(caught.value)
    assert f"{path}:8:9: {where}.model.id: is required" in shown
    assert f"{path}:8:17: {where}.model.di: unknown field `di`" in shown
    assert f"{path}:9:22: {where}.accelerator: unknown accelerator `gpus`" in shown


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("applications:", "apps:", "no application"),
        ("      fleet:", "      fleets:", "no application has a fleet"),
        ("    args:\n", "    args:\n      policy: x\n", "must not stand in `args`"),
        ("    args:\n", "    args:\n      keys: /k\n", "must not stand in `args`"),
        ("{policy: default}", "{polcy: default}", "14:23: "),
        ("{policy: default}", "{policy: 3}", "is no policy"),
        ("{policy: default}", "[3]", "must be a mapping with `policy`"),
        ("{policy: default}", "{keys: k.yaml}", "keys: must be an absolute path"),
        ("{policy: default}", "{keys: }", "without keys leave the field out"),
        ("{policy: default}", "{key: /k}", "did you mean `keys`"),
    ],
)
def test_mistakes_of_the_serve_file(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_fleet(write(tmp_path, GOOD.replace(old, new)))
    assert message in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read: No such file"):
        load_fleet(tmp_path / "absent.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ConfigError, match="no UTF-8 text"):
        load_fleet(tmp_path / "b.yaml")
    with pytest.raises(ConfigError, match="no application `x`"):
        load_fleet(write(tmp_path, GOOD), "x")


def test_check_model() -> None:
    model = {"num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 10}
    draft = (
        "d: {speculation: {method: draft_model, model: x, num_speculative_tokens: 3}}"
    )
    assert check_model(fleet(), model) == []
    assert check_model(fleet(tensor_parallel_size=3), {"text_config": model}) == []
    assert check_model(fleet(tensor_parallel_size=9), model) == []
    found = [str(p) for p in check_model(fleet(tensor_parallel_size=2), model)]
    assert found[0] == (
        "tensor_parallel_size: 2 ranks can't share the model's 9 attention heads evenly"
        " (tensor_parallel_size may be 1, 3, 9)"
    )
    assert "neither share nor repeat the model's 3 key-value heads" in found[1]
    found = [
        str(p) for p in check_model(fleet(draft), model, {"d": {"vocab_size": 11}})
    ]
    assert "the draft's vocabulary has 11 tokens, the target's 10" in found[0]


def test_accelerators_are_rays() -> None:
    accelerators = pytest.importorskip("ray.util.accelerators.accelerators")
    from orchestrator.config.accelerators import ACCELERATORS

    rays = {v for v in vars(accelerators).values() if isinstance(v, str)}
    assert set(ACCELERATORS) - {"cpu", "gpu"} <= rays


def test_fields_are_vllms() -> None:
    """Read from vLLM's source: to import it takes many seconds."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        pytest.skip("vLLM is not installed")
    source = Path(spec.origin).parent / "config" / "speculative.py"
    classes = [
        n for n in ast.parse(source.read_text()).body if isinstance(n, ast.ClassDef)
    ]
    [config] = [n for n in classes if n.name == "SpeculativeConfig"]
    theirs = {
        ast.unparse(n.target) for n in config.body if isinstance(n, ast.AnnAssign)
    }
    ours = {field for model in METHODS.values() for field in model.model_fields}
    assert ours <= theirs
