"""What a fleet's `accelerator` may be."""

from __future__ import annotations

#: `cpu`, `gpu` for whichever the cluster has, and Ray 2.60's types that vLLM runs on.
ACCELERATORS = (
    "cpu",
    "gpu",
    "A10G",
    "A100",
    "A100-40G",
    "A100-80G",
    "B200",
    "B300",
    "GB200",
    "GB300",
    "H20",
    "H100",
    "H200",
    "L4",
    "L40S",
    "RTX-PRO-6000",
    "T4",
    "V100",
    "AMD-Instinct-MI210",
    "AMD-Instinct-MI250X",
    "AMD-Instinct-MI250X-MI250",
    "AMD-Instinct-MI300A",
    "AMD-Instinct-MI300X-OAM",
    "AMD-Instinct-MI300X-HF",
    "AMD-Instinct-MI308X",
    "AMD-Instinct-MI325X-OAM",
    "AMD-Instinct-MI350X-OAM",
    "AMD-Instinct-MI355X-OAM",
)
