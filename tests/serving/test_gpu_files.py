"""The GPU cluster files, as far as a machine without GPUs can check them.

Ray Serve LLM's and vLLM's own code builds each pool's configuration on a stand-in for
vLLM's CUDA platform (`gpu/`), from folders that hold only the models' `config.json`.
Nothing here loads weights or runs a kernel.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from ray._private.accelerators.nvidia_gpu import NvidiaGPUAcceleratorManager
from vllm.v1.spec_decode.vocab_mapping import VocabMapping

from orchestrator.config.policy import load_policy
from orchestrator.config.servefile import load_fleet
from orchestrator.routing.lint import dead_rules, unknown_pools

ROOT = Path(__file__).parents[2]
GPU = Path(__file__).parent / "gpu"
FILES = {
    "h100-llama-70b": (
        "meta-llama/Llama-3.1-70B-Instruct",
        "meta-llama/Llama-3.2-1B-Instruct",
    ),
    "a100-qwen-72b": ("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct"),
}
POOLS = ("plain", "ngram", "ngram-gpu", "draft")
#: No engine runs, but half a minute is too long for the fast tests.
slow = pytest.mark.engine


def llama(**size: Any) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-05,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        "num_key_value_heads": 8,
        "head_dim": size["hidden_size"] // size["num_attention_heads"],
        **size,
    }


def qwen(**size: Any) -> dict[str, Any]:
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "dtype": "bfloat16",
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0,
        **size,
    }


#: The published dimensions.
MODELS = {
    "meta-llama/Llama-3.1-70B-Instruct": llama(
        hidden_size=8192,
        intermediate_size=28672,
        num_hidden_layers=80,
        num_attention_heads=64,
        tie_word_embeddings=False,
    ),
    "meta-llama/Llama-3.2-1B-Instruct": llama(
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        tie_word_embeddings=True,
    ),
    "Qwen/Qwen2.5-72B-Instruct": qwen(
        vocab_size=152064,
        hidden_size=8192,
        intermediate_size=29568,
        num_hidden_layers=80,
        num_attention_heads=64,
        num_key_value_heads=8,
        tie_word_embeddings=False,
    ),
    "Qwen/Qwen2.5-1.5B-Instruct": qwen(
        vocab_size=151936,
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    ),
}
#: Models that no cluster file uses, for the methods that need them.
EAGLE3 = llama(
    hidden_size=8192,
    intermediate_size=28672,
    num_hidden_layers=1,
    num_attention_heads=64,
    draft_vocab_size=32000,
    tie_word_embeddings=False,
) | {"architectures": ["LlamaForCausalLMEagle3"]}
WITH_MTP = {
    "architectures": ["Glm4MoeForCausalLM"],
    "model_type": "glm4_moe",
    "dtype": "bfloat16",
    "num_nextn_predict_layers": 1,
}


def parameters(model: dict[str, Any]) -> int:
    """The number of weights of a Llama or Qwen2 model of these dimensions."""
    hidden, layers = model["hidden_size"], model["num_hidden_layers"]
    head = hidden // model["num_attention_heads"]
    keys = model["num_key_value_heads"] * head
    attention = 2 * hidden * hidden + 2 * hidden * keys
    if model["model_type"] == "qwen2":
        attention += hidden + 2 * keys  # Qwen's queries, keys and values have a bias
    block = attention + 3 * hidden * model["intermediate_size"] + 2 * hidden
    tables = 1 if model["tie_word_embeddings"] else 2
    return tables * model["vocab_size"] * hidden + layers * block + hidden


def gib(model: str, ranks: int = 1) -> float:
    return 2 * parameters(MODELS[model]) / ranks / 2**30


#: What the docs' table assumes, in GiB of each GPU.
SEEN, SHARE, WORKING = 79, 0.9, 4


def for_cache(file: str, pool: str) -> float:
    """GiB of each GPU that a pool's weights leave for the KV cache."""
    target, draft = FILES[file]
    left = SEEN * SHARE - WORKING - gib(target, 4)
    return left - gib(draft, 4) if pool == "draft" else left


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Ray and vLLM made of every pool, and of some variants, by name."""
    folder = tmp_path_factory.mktemp("gpu")
    models = MODELS | {"eagle3": EAGLE3, "with-mtp": WITH_MTP}
    for name, config in models.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text(json.dumps(config))

    def args(file: str) -> dict[str, Any]:
        """A file's `args`, with the folders in the place of the hub's names."""
        text = (ROOT / "clusters" / f"{file}.yaml").read_text()
        for name in FILES[file]:
            assert f" {name}\n" in text
            text = text.replace(name, str(folder / name))
        found: dict[str, Any] = yaml.safe_load(text)["applications"][0]["args"]
        return found

    jobs: dict[str, Any] = {
        f"{file}/{pool}": {
            "args": args(file),
            "pool": pool,
            "kv_bytes": int(for_cache(file, pool) * 2**30),
        }
        for file in FILES
        for pool in POOLS
    }
    for file in FILES:
        default = args(file)
        del default["fleet"]["engine"]["max_num_batched_tokens"]
        jobs[f"{file}/default"] = {"args": default, "pool": "plain"}
    equal = args("a100-qwen-72b")
    del equal["fleet"]["pools"]["draft"]["speculation"]["use_heterogeneous_vocab"]
    jobs["vocabularies"] = {"args": equal, "pool": "draft"}
    forced = args("h100-llama-70b")
    forced["fleet"]["engine"]["async_scheduling"] = True
    jobs["forced"] = {"args": forced, "pool": "ngram"}
    any_pool = {"args": args("h100-llama-70b"), "pool": "plain"}
    jobs["old executor"] = any_pool | {"env": {"VLLM_USE_RAY_V2_EXECUTOR_BACKEND": "0"}}
    for speculation in (
        {"method": "eagle3", "model": str(folder / "eagle3")},
        {"method": "suffix"},
        {"method": "custom_class", "model": "some.module.Proposer"},
    ):
        config = {"num_speculative_tokens": 3, **speculation}
        jobs[speculation["method"]] = any_pool | {"speculative_config": config}
    mtp = args("h100-llama-70b")
    mtp["fleet"]["model"]["source"] = str(folder / "with-mtp")
    config = {"method": "mtp", "num_speculative_tokens": 1}
    jobs["mtp"] = {"args": mtp, "pool": "plain", "speculative_config": config}

    (folder / "jobs.json").write_text(json.dumps(jobs))
    # How an installed package would tell vLLM of its platform.
    plugin = folder / "site" / "gpu_platform-0.dist-info"
    plugin.mkdir(parents=True)
    (plugin / "METADATA").write_text("Name: gpu-platform\nVersion: 0\n")
    (plugin / "entry_points.txt").write_text(
        "[vllm.platform_plugins]\nabsent_gpu = gpu_platform:plugin\n"
    )
    path = os.pathsep.join(map(str, (plugin.parent, GPU, ROOT)))
    run = subprocess.run(
        [sys.executable, GPU / "gpu_configs.py", "jobs.json", "results.json"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return results


@pytest.mark.parametrize(
    ("model", "published"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", 70_553_706_496),
        ("meta-llama/Llama-3.2-1B-Instruct", 1_235_814_400),
        ("Qwen/Qwen2.5-72B-Instruct", 72_706_203_648),
        ("Qwen/Qwen2.5-1.5B-Instruct", 1_543_714_304),
    ],
)
def test_the_dimensions_give_the_published_number_of_weights(
    model: str, published: int
) -> None:
    assert parameters(MODELS[model]) == published


@pytest.mark.parametrize("file", FILES)
def test_the_routers_policy_fits_the_pools(file: str) -> None:
    loaded = load_fleet(ROOT / "clusters" / f"{file}.yaml")
    assert tuple(loaded.fleet.pools) == POOLS
    assert loaded.router.policy is not None
    policy = load_policy(loaded.router.policy)
    assert set(policy.pools()) == set(POOLS)
    assert [*unknown_pools(policy, POOLS), *dead_rules(policy)] == []


def built(told: dict[str, Any], name: str) -> dict[str, Any]:
    """What was built, where it had to be accepted."""
    engine: dict[str, Any] = told[name]
    assert "error" not in engine, engine["error"]
    return engine


@slow
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize(("file", "batched"), [*zip(FILES, (8192, 2048), strict=True)])
def test_vllm_accepts_each_pool(
    told: dict[str, Any], file: str, pool: str, batched: int
) -> None:
    engine = built(told, f"{file}/{pool}")
    assert engine["worker"] == "vllm.v1.worker.gpu_worker.Worker"
    assert engine["dtype"] == "torch.bfloat16"
    assert (engine["ranks"], engine["length"]) == (4, 16384)
    assert (engine["chunked"], engine["batched_tokens"]) == (True, batched)
    assert (
        built(told, f"{file}/default")["batched_tokens"] == batched
    )  # as the file says
    # A request that Serve lets in never waits inside the engine.
    assert engine["seqs"] == engine["max_ongoing_requests"] == 128
    parsers = {"h100-llama-70b": "Llama3JsonToolParser"}
    assert engine["tool_parser"] == parsers.get(file, "Hermes2ProToolParser")
    methods = {"ngram": "ngram", "ngram-gpu": "ngram_gpu", "draft": "draft_model"}
    assert (engine["speculation"] or {}).get("method") == methods.get(pool)
    if pool != "plain":
        assert engine["speculation"]["tokens"] == 5
        # vLLM refuses a draft model that is split otherwise than the target.
        assert engine["speculation"]["ranks"] == 4
        assert engine["speculation"]["length"] == 16384


@slow
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize(("file", "gpu"), [*zip(FILES, ("H100", "A100"), strict=True)])
def test_ray_reserves_four_gpus_of_the_type(
    told: dict[str, Any], file: str, gpu: str, pool: str
) -> None:
    engine = built(told, f"{file}/{pool}")
    first, *others = engine["bundles"]
    one = {"GPU": 1, f"accelerator_type:{gpu}": 0.001}
    assert others == [one] * 3
    assert first == one | {"CPU": 0}  # the replica's own process, which needs none
    # On one node where that can be; docs/deploy.md says so.
    assert engine["strategy"] == "PACK"


@pytest.mark.parametrize(
    ("card", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100-SXM4-40GB", "A100"),  # so the type does not tell them apart
        ("NVIDIA A100 80GB PCIe", "A100"),
    ],
)
def test_what_ray_calls_the_cards(card: str, name: str) -> None:
    named = NvidiaGPUAcceleratorManager._gpu_name_to_accelerator_type(card)
    assert named == name


@slow
def test_vllm_refuses_qwens_two_vocabularies_without_the_setting(
    told: dict[str, Any],
) -> None:
    error = told["vocabularies"]["error"]
    assert "should have the same vocabulary size" in error
    assert "vocab_size=152064" in error
    assert "vocab_size=151936" in error
    built(told, "a100-qwen-72b/draft")


class SharedTokenizer:
    """Qwen2.5's in size: one vocabulary of 151,665 tokens, whatever the table."""

    unk_token_id = None
    eos_token_id = 151645

    def get_vocab(self) -> dict[str, int]:
        return {f"token{i}": i for i in range(151_665)}


def test_vocabularies_with_one_tokenizer_map_to_themselves() -> None:
    tokenizer = SharedTokenizer()
    mapping = VocabMapping(tokenizer, tokenizer, 152064, 151936, torch.device("cpu"))
    tokens = torch.arange(151_665)
    assert torch.equal(mapping.map_target_to_draft_ids(tokens), tokens)
    assert torch.equal(mapping.map_draft_to_target_ids(tokens), tokens)
    # Only the rows that no token has can't be drafted.
    allowed = mapping.constrain_draft_logits(torch.zeros(151_936)).isfinite()
    assert allowed.sum() == 151_665


#: Method, name of the job, keeps asynchronous scheduling, vLLM's model runner.
SCHEDULING = [
    ("none", "h100-llama-70b/plain", True, 2),
    ("draft_model", "h100-llama-70b/draft", True, 1),
    ("ngram_gpu", "h100-llama-70b/ngram-gpu", True, 1),
    ("eagle3", "eagle3", True, 2),
    ("mtp", "mtp", True, 2),
    ("ngram", "h100-llama-70b/ngram", False, 1),
    ("suffix", "suffix", False, 1),
    ("custom_class", "custom_class", False, 1),
]


@slow
@pytest.mark.parametrize(("method", "job", "keeps", "runner"), SCHEDULING)
def test_which_methods_keep_asynchronous_scheduling(
    told: dict[str, Any], method: str, job: str, keeps: bool, runner: int
) -> None:
    engine = built(told, job)
    assert (engine["speculation"] or {"method": "none"})["method"] == method
    moved = (
        f"vLLM has changed its mind about `{method}`: put it into the table of "
        "docs/compatibility.md, and read the advice in the GPU cluster files again."
    )
    assert (engine["async"], engine["runner"]) == (keeps, runner), moved
    row = f"| `{method}` | {'yes' if keeps else '**no**'} | V{runner} |"
    assert row in (ROOT / "docs" / "compatibility.md").read_text()


@slow
def test_asynchronous_scheduling_needs_rays_second_executor(
    told: dict[str, Any],
) -> None:
    assert built(told, "h100-llama-70b/plain")["executor"] == "RayExecutorV2"
    old = built(told, "old executor")
    assert (old["executor"], old["async"]) == ("RayDistributedExecutor", False)


@slow
def test_asynchronous_scheduling_can_not_be_forced(told: dict[str, Any]) -> None:
    assert "async scheduling is only supported" in told["forced"]["error"]


@slow
def test_the_docs_memory_arithmetic(told: dict[str, Any]) -> None:
    """Each row of the table in docs/deploy.md; the tokens are vLLM's own layout."""
    targets, drafts = zip(*FILES.values(), strict=True)
    tokens = {
        pool: [built(told, f"{f}/{pool}")["kv_tokens"] for f in FILES] for pool in POOLS
    }
    kib = {
        pool: [
            for_cache(f, pool) * 2**20 / held
            for f, held in zip(FILES, tokens[pool], strict=True)
        ]
        for pool in POOLS
    }
    assert tokens["plain"] == tokens["ngram"] == tokens["ngram-gpu"]
    rows = [
        ("memory that vLLM sees", [f"{SEEN}"] * 2),
        (f"its share, {SHARE}", [f"{SEEN * SHARE:.1f}"] * 2),
        ("a quarter of the target's weights", [f"{gib(t, 4):.1f}" for t in targets]),
        ("working memory (an allowance)", [f"{WORKING}"] * 2),
        ("left for the KV cache", [f"{for_cache(f, 'plain'):.1f}" for f in FILES]),
        ("KiB for each token", [f"{k:.0f}" for k in kib["plain"]]),
        ("tokens", [f"{t:,}" for t in tokens["plain"]]),
        ("requests of 16,384 tokens", [f"{t // 16384}" for t in tokens["plain"]]),
        ("tokens for each of 128 requests", [f"{t // 128:,}" for t in tokens["plain"]]),
        ("a quarter of the draft's weights", [f"{gib(d, 4):.1f}" for d in drafts]),
        ("left in the pool `draft`", [f"{for_cache(f, 'draft'):.1f}" for f in FILES]),
        ("KiB for each token there", [f"{k:.0f}" for k in kib["draft"]]),
        ("tokens there", [f"{t:,}" for t in tokens["draft"]]),
    ]
    docs = (ROOT / "docs" / "deploy.md").read_text()
    table = [f"| {name} | {' | '.join(numbers)} |" for name, numbers in rows]
    missing = [row for row in table if row not in docs]
    assert not missing, "docs/deploy.md should say:\n" + "\n".join(table)
    for target, whole in zip(targets, ("131", "135"), strict=True):
        assert f"{gib(target):.0f}" == whole  # as the cluster files say
