"""Mends sampling with speculation on CPU, which vLLM 0.29 does wrongly.

vLLM's CPU stand-in for the kernel that gives every draft token its request's
temperature, top_k and top_p writes into an integer copy that is then dropped, so the
rejection sampler works with uninitialised memory. Greedy requests don't use it.
`docs/compatibility.md` has the story; a test tells when this module can go.

vLLM loads this module inside its worker processes, so it imports nothing but torch at
the top.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

#: For `worker_extension_cls` in an engine's settings.
EXTENSION = "orchestrator.serving.cpu_sampling.CpuSamplingExtension"
#: For `collective_rpc`, once, after the engine is up and before it serves.
METHOD = "mend_cpu_sampling"


class CpuSamplingExtension:
    """Mixed into vLLM's worker by `worker_extension_cls`.

    An engine takes one such class: another extension subclasses this one. Attributes
    must not clash with the worker's, so there is only the one method.
    """

    def mend_cpu_sampling(self) -> str:
        """Put a right expand where the rejection sampler looks it up.

        Returns what was done, for the log. Raises `RuntimeError` if the sampler still
        expands wrongly afterwards; such an engine must serve no request with a
        temperature above zero.
        """
        from vllm.v1.sample import rejection_sampler

        if not hasattr(rejection_sampler, "expand_kernel"):
            raise RuntimeError(
                "This vLLM has no rejection_sampler.expand_kernel, so its sampling "
                "with speculation on CPU can't be mended."
            )
        # The CPU runner puts its own kernel into the same place while it is built,
        # which is why this comes after the engine has started.
        rejection_sampler.expand_kernel = _Launchable(expand)
        if not _expands_rightly(rejection_sampler.expand_kernel) or not _is_looked_up(
            rejection_sampler
        ):
            raise RuntimeError(
                "vLLM's rejection sampler does not use the mended expand, so its "
                "sampling with speculation on CPU is still wrong."
            )
        return "sampling with speculation mended: expand_kernel replaced and checked"


def expand(
    output: torch.Tensor,
    input_val: torch.Tensor,
    cu_num_tokens: torch.Tensor,
    replace_from: float,
    replace_to: float,
    MAX_NUM_TOKENS: int | None = None,
) -> None:
    """Repeat each request's value for its draft tokens, in place, in any dtype.

    `output` is [num_tokens], `input_val` and `cu_num_tokens` (running totals of the
    requests' draft tokens) are [batch_size]. A value equal to `replace_from` becomes
    `replace_to`. Elements of `output` past the last total stay as they are, as in
    vLLM's Triton kernel, whose compile-time `MAX_NUM_TOKENS` is not needed here.
    """
    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
    values = input_val.masked_fill(input_val == replace_from, replace_to)
    expanded = values.repeat_interleave(counts)
    output[: expanded.shape[0]].copy_(expanded)


def sampling_is_broken() -> bool:
    """Whether the installed vLLM's own CPU expand, unmended, still goes wrong."""
    from vllm.platforms import current_platform
    from vllm.utils import cpu_triton_utils

    current_platform.import_kernels()
    return not _expands_rightly(cpu_triton_utils.expand_kernel)


class _Launchable:
    """Lets a function be called as Triton's kernels are: `kernel[grid](...)`."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return self._function


def _expands_rightly(kernel: Any) -> bool:
    """Try `kernel` on a known input, in the dtypes of temperature and of top_k."""
    for dtype in (torch.float32, torch.int32):
        # Filled, since uninitialised memory may hold the right answer by chance.
        output = torch.full((6,), -7, dtype=dtype)
        values = torch.tensor([0, 2, 3, 4], dtype=dtype)
        totals = torch.tensor([1, 3, 3, 6], dtype=torch.int32)
        kernel[(4,)](output, values, totals, 0, 1, MAX_NUM_TOKENS=128)
        if output.tolist() != [1, 2, 2, 4, 4, 4]:
            return False
    return True


def _is_looked_up(rejection_sampler: Any) -> bool:
    """Whether vLLM's sampler really goes through the replaced kernel."""
    temperature = torch.tensor([0.125, 0.5])
    expanded = rejection_sampler.expand_batch_to_tokens(
        temperature, torch.tensor([1, 3], dtype=torch.int32), 3
    )
    return bool(expanded.tolist() == [0.125, 0.5, 0.5])
