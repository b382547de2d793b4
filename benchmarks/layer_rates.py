"""Rates of layers by their α against one rate for all: test accuracy over seeds, paired.

    python -m benchmarks.layer_rates

An MLP of five layers on 5,000 images of Fashion-MNIST, 2,000 test images, momentum at 0.02 on a cosine, six epochs;
both arms of a seed start from the same weights and see the same batches. ``--watch rates`` is the second arm.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

import weightsmith as ws
from weightsmith.chain.links import rates_by_alpha
from weightsmith.core.statistics import mean_interval
from weightsmith.core.storage import write_atomic

__all__ = ["main"]

_OUT = Path(__file__).resolve().parents[1] / "docs" / "results" / "layer_rates.md"
_NETWORK, _IMAGES, _TEST, _EPOCHS, _SEEDS = "mlp:200,200,200,100", 5_000, 2_000, 6, (0, 1, 2)


def main() -> int:
    """Train both arms for every seed and write the page."""
    data = ws.data.load("fashion-mnist")
    data = dataclasses.replace(
        data, train=data.split("train").take(slice(0, _IMAGES)), test=data.split("test").take(slice(0, _TEST))
    )
    found: dict[str, list[float]] = {"one rate": [], "rates by α": []}
    seconds = dict.fromkeys(found, 0.0)
    for seed in _SEEDS:
        for arm, values in found.items():
            start = time.process_time()
            hooks = () if arm == "one rate" else (rates_by_alpha(),)
            run = ws.train(
                _NETWORK,
                data,
                optimiser="momentum",
                schedule="cosine:0.02",
                epochs=_EPOCHS,
                diagnose=False,
                hooks=hooks,
                seed=seed,
            )
            seconds[arm] += (time.process_time() - start) / len(_SEEDS)
            values.append(100 * ws.evaluate(run.network, data, split="test").score.value)
            sys.stderr.write(f"seed {seed}, {arm}: {values[-1]:.2f} %\n")
    gain = mean_interval([after - before for before, after in zip(*found.values(), strict=True)])
    rows = []
    for arm, values in found.items():
        each = ", ".join(f"{value:.2f}" for value in values)
        rows.append(f"| {arm} | {each} | {sum(values) / len(values):.2f} | {seconds[arm]:.1f} |")
    decided = "no" if gain.low <= 0 <= gain.high else "yes"
    text = "\n".join(
        [
            "# Rates of layers by α",
            "",
            (__doc__ or "").partition("    python -m")[0].strip(),
            f"{_NETWORK} on {_IMAGES:,} images of Fashion-MNIST, {_TEST:,} test images, momentum under `cosine:0.02`,",
            f"{_EPOCHS} epochs, seeds {', '.join(map(str, _SEEDS))}.",
            "",
            "| arm | test accuracy by seed (%) | mean | CPU seconds a run |",
            "|---|---|---|---|",
            *rows,
            "",
            f"Difference, rates by α − one rate, paired by seed: {gain.value:+.2f} points, 95 % interval (t)",
            f"{gain.low:+.2f} to {gain.high:+.2f}. More than chance: {decided}.",
            "Made by `python -m benchmarks.layer_rates`.",
            "",
        ]
    )
    write_atomic(_OUT, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
