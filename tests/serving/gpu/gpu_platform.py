"""vLLM's own CUDA platform class, with the facts of a GPU that is not there.

vLLM takes it as a platform plugin. Everything it decides by platform is then decided as
on that GPU; what only the device itself could tell is written here.
"""

import sys
import types

# The CUDA kernels that vLLM imports by platform and that its CPU build lacks. No
# configuration calls them.
for name, functions in {
    "vllm._C_stable_libtorch": (),
    "vllm.vllm_flash_attn": (
        "compile_flash_attn_varlen_func_from_specs",
        "flash_attn_varlen_func",
        "get_scheduler_metadata",
    ),
}.items():
    kernels = types.ModuleType(name)
    vars(kernels).update(dict.fromkeys(functions))
    sys.modules[name] = kernels

from vllm.platforms.cuda import CudaPlatformBase  # noqa: E402
from vllm.platforms.interface import DeviceCapability  # noqa: E402

#: Ray's name: the driver's name, compute capability, and GiB of memory.
DEVICES = {
    "H100": ("NVIDIA H100 80GB HBM3", DeviceCapability(9, 0), 79),
    "A100": ("NVIDIA A100-SXM4-80GB", DeviceCapability(8, 0), 79),
}


def plugin() -> str:
    """The class's name, for the entry point `vllm.platform_plugins`."""
    return "gpu_platform.AbsentGpu"


class AbsentGpu(CudaPlatformBase):
    """A node with eight of one device."""

    device = DEVICES["H100"]

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return cls.device[0]

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:
        return cls.device[1]

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        return cls.device[2] * 2**30

    @classmethod
    def device_count(cls) -> int:
        return 8
