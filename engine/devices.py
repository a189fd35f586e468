"""Names the devices that MLX can run on here."""

from collections.abc import Sequence

import mlx.core as mx


def devices() -> Sequence[str]:
    """One line for each device, the one that is used first: what `--list-devices` prints."""
    default = mx.default_device()
    lines = [f"{default.type.name.upper()}: {_name(default)}"]
    if default.type != mx.DeviceType.cpu:
        lines.append("CPU: host processor")
    return lines


def _name(device: mx.Device) -> str:
    try:
        return str(mx.device_info(device).get("device_name", "default device"))
    except (AttributeError, TypeError, ValueError):
        return "default device"
