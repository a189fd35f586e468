"""Works around what MLX can't do on a CPU: mixing experts' outputs in anything but float32."""

from typing import Any

import mlx.core as mx


def widen_experts_on_cpu(model: Any) -> None:
    """Make unquantised experts' weights float32 where the device needs that (`mx.gather_mm`)."""
    if mx.default_device() != mx.Device(mx.cpu):
        return
    from mlx_lm.models.switch_layers import SwitchLinear

    for module in model.modules():
        if isinstance(module, SwitchLinear):
            module.set_dtype(mx.float32)
