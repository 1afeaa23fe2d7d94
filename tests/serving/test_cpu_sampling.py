from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from orchestrator.serving.cpu_sampling import (  # noqa: E402
    EXTENSION,
    METHOD,
    CpuSamplingExtension,
    expand,
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int64])
def test_repeats_each_value_for_its_draft_tokens(dtype: Any) -> None:
    output = torch.empty(6, dtype=dtype)
    expand(output, torch.tensor([1, 2, 3], dtype=dtype), torch.tensor([2, 5, 6]), 0, 0)
    assert output.tolist() == [1, 1, 2, 2, 2, 3]
    assert output.dtype == dtype


def test_keeps_fractions() -> None:
    output = torch.empty(3)
    totals = torch.tensor([1, 3], dtype=torch.int32)
    expand(output, torch.tensor([0.25, 0.75]), totals, 0, 0)
    assert output.tolist() == [0.25, 0.75, 0.75]


def test_greedy_temperature_becomes_one_and_input_stays() -> None:
    temperature = torch.tensor([0.0, 0.5])
    output = torch.empty(3)
    expand(output, temperature, torch.tensor([2, 3]), 0, 1)
    assert output.tolist() == [1.0, 1.0, 0.5]
    assert temperature.tolist() == [0.0, 0.5]


def test_requests_without_drafts_take_no_place() -> None:
    output = torch.empty(2)
    expand(output, torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 2, 2]), 0, 1)
    assert output.tolist() == pytest.approx([0.2, 0.2])


def test_leaves_what_lies_past_the_last_total() -> None:
    output = torch.full((4,), -7.0)
    expand(output, torch.tensor([0.5]), torch.tensor([2]), 0, 1)
    assert output.tolist() == [0.5, 0.5, -7.0, -7.0]


def test_no_drafts_at_all() -> None:
    output = torch.empty(0)
    expand(output, torch.tensor([0.5, 0.7]), torch.tensor([0, 0]), 0, 1)
    assert output.tolist() == []


class FakeSampler(ModuleType):
    """vLLM's module as the extension sees it; `uses` says what it really calls."""

    def __init__(self, uses: str = "expand_kernel") -> None:
        super().__init__("rejection_sampler")
        self.expand_kernel: Any = None
        self.other: Any = {(2,): lambda *args, **kwargs: None}
        self._uses = uses

    def expand_batch_to_tokens(self, x: Any, totals: Any, count: int) -> Any:
        output = torch.zeros(count)
        getattr(self, self._uses)[(2,)](output, x, totals, 0, 0, MAX_NUM_TOKENS=128)
        return output


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(sampler: ModuleType) -> None:
        parent = ModuleType("vllm.v1.sample")
        parent.rejection_sampler = sampler  # type: ignore[attr-defined]
        for name in ("vllm", "vllm.v1"):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.setitem(sys.modules, "vllm.v1.sample", parent)

    return install


def test_replaces_the_kernel_where_vllm_looks_it_up(install: Any) -> None:
    sampler = FakeSampler()
    install(sampler)
    assert "mended" in CpuSamplingExtension().mend_cpu_sampling()
    assert sampler.expand_kernel is not None


def test_raises_where_there_is_no_such_kernel(install: Any) -> None:
    install(ModuleType("rejection_sampler"))
    with pytest.raises(RuntimeError, match="has no rejection_sampler"):
        CpuSamplingExtension().mend_cpu_sampling()


def test_raises_where_the_sampler_goes_another_way(install: Any) -> None:
    install(FakeSampler(uses="other"))
    with pytest.raises(RuntimeError, match="still wrong"):
        CpuSamplingExtension().mend_cpu_sampling()


def test_names_for_the_engine_settings_are_right() -> None:
    module, name = EXTENSION.rsplit(".", 1)
    assert getattr(sys.modules[module], name) is CpuSamplingExtension
    assert callable(getattr(CpuSamplingExtension, METHOD))
    public = [name for name in dir(CpuSamplingExtension) if not name.startswith("__")]
    assert public == [METHOD]  # vLLM refuses names that its worker has
