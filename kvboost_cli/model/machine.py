"""What this machine computes with."""

import platform

import torch


def cpu_name() -> str:
    """The processor's name as torch tells it, else as the system does; empty if neither knows it."""
    return str(torch.cpu.get_capabilities().get("cpu_name", platform.processor()))
