"""Batch norm whose running statistics follow the slides on training deep networks (seed 002, eqs. 15–20).

In training every channel is normalised by its batch mean μ and deviation σ = sqrt(variance + ε), ε = 1e-5. For
test time the slides average *deviations*, beginning with the first batch (eqs. 19–20, m = momentum):

    μ̄ ← μ of the first batch,   then  μ̄ ← (1 − m) μ̄ + m μ
    σ̄ ← σ of the first batch,   then  σ̄ ← (1 − m) σ̄ + m σ       (momentum None: plain means over all batches)

No library does that: torch starts from 0 and 1 and averages unbiased variances, Keras starts from 0 and 1 and keeps
99 %. After ten batches of mean 5 the slides hold 5.00, torch 3.26 and Keras 0.48.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from weightsmith.core.errors import OptionError, UnknownName

__all__ = ["SeedBatchNorm1d", "SeedBatchNorm2d", "Statistics", "batch_norm"]

Statistics = Literal["seed", "torch"]


class _SeedStatistics(nn.modules.batchnorm._BatchNorm):
    """The rule of eqs. 19–20 on torch's batch norm: same parameters, same buffers, so that files fit both.

    ``running_var`` holds σ̄² − ε, so that torch's own evaluation path divides by exactly σ̄, and batch-norm folding,
    ONNX export and any other reader of the buffers work without knowing this class.
    """

    def forward(self, batch: Tensor) -> Tensor:
        """Normalise by the batch in training, by the running statistics otherwise."""
        if not self.training:
            return super().forward(batch)
        self._check_input_dim(batch)  # type: ignore[no-untyped-call]
        normalised = nn.functional.batch_norm(batch, None, None, self.weight, self.bias, True, 0.0, self.eps)
        self._average(batch.detach().to(torch.promote_types(batch.dtype, torch.float32)))
        return normalised

    @torch.no_grad()
    def _average(self, batch: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        axes = [axis for axis in range(batch.dim()) if axis != 1]
        mean, variance = batch.mean(axes), batch.var(axes, correction=0)
        seen = int(self.num_batches_tracked)
        share = 1 / (seen + 1) if seen == 0 or self.momentum is None else float(self.momentum)
        deviation = (self.running_var + self.eps).sqrt().to(variance.dtype)
        deviation.lerp_((variance + self.eps).sqrt(), share)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.copy_(deviation**2 - self.eps)
        self.num_batches_tracked.add_(1)


class SeedBatchNorm1d(_SeedStatistics, nn.BatchNorm1d):
    """Batch norm over (n, features) with the slides' running statistics."""


class SeedBatchNorm2d(_SeedStatistics, nn.BatchNorm2d):
    """Batch norm over (n, channels, height, width) with the slides' running statistics."""


def batch_norm(channels: int, dimensions: Literal[1, 2], statistics: Statistics = "torch") -> nn.Module:
    """A batch norm for dense (1) or image (2) activations; ``statistics`` chooses the running averages."""
    kinds: dict[tuple[str, int], type[nn.Module]] = {
        ("torch", 1): nn.BatchNorm1d,
        ("torch", 2): nn.BatchNorm2d,
        ("seed", 1): SeedBatchNorm1d,
        ("seed", 2): SeedBatchNorm2d,
    }
    if dimensions not in (1, 2):
        raise OptionError(f"batch norm is for dense (1) or image (2) activations, not {dimensions!r}")
    if (statistics, dimensions) not in kinds:
        raise UnknownName("batch-norm statistics", statistics, ["seed", "torch"])
    return kinds[statistics, dimensions](channels)
