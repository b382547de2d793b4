"""Training small networks on Fashion-MNIST: ``train`` against a plain torch loop and the libraries around it."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.measure import Case, Unavailable, UnequalWork
from benchmarks.training_peers import (
    Arm,
    Outcome,
    Work,
    flat,
    keras_arm,
    keras_on_jax_arm,
    lightning_arm,
    skorch_arm,
)
from weightsmith.data.datasets import load
from weightsmith.networks.models.resnet import resnet
from weightsmith.training.clipping import ClipGlobalNorm
from weightsmith.training.loop import train
from weightsmith.training.optimisers import Sgd

__all__ = ["cases", "small_cnn", "work"]

# Distances are shares of the way from the first weights. In double precision arms with the same order of images agree
# but for the 1e-6 that torch adds to a norm when it clips; in single precision hundreds of steps magnify the rounding,
# though not to what another order of the images makes, which is more than 0.1.
_EXACT, _NEAR = 1e-5, 0.1
_LOSS, _ACCURACY = 0.03, 0.04  # where the order differs: relative, and as a share of the images


def cases() -> list[Case]:
    """Two batch sizes for the dense network, a small convolutional network and ResNet-20."""
    return [_case(name, network) for name, (network, _) in _WORKS.items()]


def work(name: str) -> Work:
    """What the case of this name has to train; made anew in every process that needs it."""
    if not os.environ.get("WEIGHTSMITH_DATA"):
        raise Unavailable("WEIGHTSMITH_DATA is not set: a folder with fashion-mnist")
    split = load("cifar10" if name.startswith("ResNet") else "fashion-mnist", splits=("train",)).split("train")
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        return _WORKS[name][1](split.x.to(torch.float32) / 255, split.y)


def _case(name: str, network: str) -> Case:
    given = work(name)
    _check_in_double(name, given)
    arms = _ordered_arms(given)
    if isinstance(given.network, nn.Sequential):
        arms["Keras on torch"] = keras_arm(given)
        arms["Keras on jax"] = keras_on_jax_arm(partial(work, name))
    told = (
        f"{network} on {len(given.y):,} images in memory, epochs: {given.epochs}, SGD at {given.rate}; loss and "
        f"accuracy per epoch; gradients clipped to the global norm {given.clip:g}, which many steps reach. Arms in "
        "parentheses do less; the one in brackets does more, as ``train`` does by default"
    )
    same = partial(_same, given, _ours(given, clip=False))
    packages = ("keras", "jax", "lightning", "skorch")
    return Case(name, told, arms, same, packages, children=True, repeats=5 if given.batch != 64 else 3)


def _ordered_arms(given: Work) -> dict[str, Arm]:
    """The arms that take the images in the same order."""
    arms: dict[str, Arm] = {
        "weightsmith train": partial(_ours, given),
        "[weightsmith train, gradients diagnosed]": partial(_ours, given, diagnose=True),
        "(weightsmith train, no clipping)": partial(_ours, given, clip=False),
        "(plain torch, no history, no clipping)": partial(_plain, given, everything=False),
        "plain torch": partial(_plain, given),
    }
    if given.x.dim() == 4:
        arms["plain torch, channels last"] = partial(_plain, given, channels_last=True)
    return {**arms, "Lightning Trainer": lightning_arm(given), "skorch": skorch_arm(given)}


def _check_in_double(name: str, given: Work) -> None:
    """Two epochs of a few batches, too few for rounding to grow."""
    rows = min(8 * given.batch + given.batch // 2, 2_200 if given.x.shape[1] == 1 or given.x.dim() == 2 else 80)
    network = copy.deepcopy(given.network).double()
    short = dataclasses.replace(given, network=network, x=given.x[:rows].double(), y=given.y[:rows], epochs=2)
    ours, unclipped = _ours(short), _ours(short, clip=False)
    for arm, run in _ordered_arms(short).items():
        if not _same(short, unclipped, ours, run(), within=_EXACT):
            raise UnequalWork(f"{name}: {arm!r} and ours differ in double precision; nothing was timed")


def _same(given: Work, unclipped: Outcome, ours: Outcome, other: Outcome, within: float = _NEAR) -> bool:
    """Equal steps; then the weights of ours with or without clipping; from another order of images, its success."""
    expected = ours if other.clips else unclipped
    if other.steps != expected.steps:
        return False
    if other.weights is not None and expected.weights is not None:
        way = expected.weights - flat(given.network)
        return bool((other.weights - expected.weights).norm() <= within * way.norm())
    if expected.loss is None or expected.accuracy is None or other.loss is None or other.accuracy is None:
        return False
    near = abs(other.loss - expected.loss) <= _LOSS * expected.loss
    return near and abs(other.accuracy - expected.accuracy) <= _ACCURACY


def _ours(given: Work, *, clip: bool = True, diagnose: bool = False) -> Outcome:
    run = train(
        given.network,
        (given.x, given.y),
        optimiser=Sgd(),
        schedule=given.rate,
        clip=ClipGlobalNorm(given.clip) if clip else None,
        batch=given.batch,
        epochs=given.epochs,
        diagnose=diagnose,
        seed=given.seed,
    )
    last = run.history.rows[-1]
    steps = sum(row.steps for row in run.history.rows)
    return Outcome(steps, last.train_loss, last.train_accuracy, flat(run.network), clips=clip)


def _plain(given: Work, *, everything: bool = True, channels_last: bool = False) -> Outcome:
    """The loop everyone writes: a permutation, rows by index, autograd, torch's optimiser as it comes."""
    network, x, y = copy.deepcopy(given.network), given.x, given.y
    if channels_last:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.SGD(network.parameters(), lr=given.rate)
    steps, total, correct = 0, 0.0, 0
    for epoch in range(1, given.epochs + 1):
        total, correct = 0.0, 0
        for rows in torch.split(given.order(epoch), given.batch):
            labels = y[rows]
            optimiser.zero_grad()
            scores = network(x[rows])
            loss = nn.functional.cross_entropy(scores, labels)
            loss.backward()  # type: ignore[no-untyped-call]
            if everything:
                nn.utils.clip_grad_norm_(network.parameters(), given.clip)
                total += loss.item() * len(labels)
                correct += int((scores.argmax(1) == labels).sum())
            optimiser.step()
            steps += 1
    if not everything:
        return Outcome(steps, None, None, flat(network), clips=False)
    return Outcome(steps, total / len(y), correct / len(y), flat(network))


def _dense() -> nn.Sequential:
    return nn.Sequential(nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10))


def small_cnn() -> nn.Sequential:
    """Two convolutions with pools, two dense layers."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


_MLP, _CNN = "MLP 784-300-100-10", "CNN (3 × 3 × 16, pool, 3 × 3 × 32, pool, dense 64, dense 10)"
_WORKS: dict[str, tuple[str, Callable[[Tensor, Tensor], Work]]] = {
    "MLP, batch 256": (_MLP, lambda x, y: Work(_dense(), x.flatten(1), y, batch=256, epochs=2)),
    "MLP, batch 32": (_MLP, lambda x, y: Work(_dense(), x[:20_000].flatten(1).clone(), y[:20_000], batch=32, epochs=3)),
    # At the rate of the others its loss hardly moves in one epoch, and equal results would say little.
    "CNN, batch 256": (
        _CNN,
        lambda x, y: Work(small_cnn(), x[:10_000].clone(), y[:10_000], batch=256, epochs=1, rate=0.1),
    ),
    # At the rate of the others sixteen steps magnify the rounding of single precision to half of the way.
    "ResNet-20, batch 64": (
        "ResNet-20 (channels 16, 32, 64; batch norm)",
        lambda x, y: Work(resnet(20), x[:1_024].clone(), y[:1_024], batch=64, epochs=1, rate=0.005),
    ),
}
