"""One training, done by the libraries people train with today; each arm gives an :class:`Outcome` to compare.

All start from the same weights. Lightning and skorch take their rows from the same sampler, so their weights must come
out as ours; Keras shuffles by itself, so there only the loss and the accuracy of the last epoch can be compared.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

from benchmarks.measure import UnequalWork
from weightsmith.core.seeds import torch_stream

__all__ = ["Arm", "Outcome", "Work", "flat", "keras_arm", "keras_on_jax_arm", "lightning_arm", "skorch_arm"]


@dataclasses.dataclass(frozen=True)
class Work:
    """What every arm is given: a network in its first state, images, labels, and how to train; SGD, cross-entropy."""

    network: nn.Module
    x: Tensor
    y: Tensor
    batch: int
    epochs: int
    rate: float = 0.05
    clip: float = 1.0
    seed: int = 0

    def order(self, epoch: int) -> Tensor:
        """The rows in the order of this epoch (counted from 1), which is that of ``weightsmith.training``."""
        return torch.randperm(len(self.y), generator=torch_stream(self.seed, "order", epoch))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a training gave: loss and accuracy are means over the last epoch; None is what the arm does not tell."""

    steps: int
    loss: float | None
    accuracy: float | None
    weights: Tensor | None = None
    clips: bool = True


Arm = Callable[[], Outcome]


def flat(network: nn.Module) -> Tensor:
    """All parameters in one vector."""
    return torch.cat([value.detach().flatten() for value in network.parameters()])


class _Order(Sampler[int]):
    """The rows of one epoch after the other, in the order of the work."""

    def __init__(self, work: Work) -> None:
        self._work, self._epoch = work, 0

    def __len__(self) -> int:
        return len(self._work.y)

    def __iter__(self) -> Iterator[int]:
        self._epoch += 1
        return iter(self._work.order(self._epoch).tolist())


# Lightning


def lightning_arm(work: Work) -> Arm:
    """``Trainer.fit`` without bar, logger, summary and checkpoints.

    Loss and accuracy are summed by hand: its own ``log`` would cost half as much time again.
    """
    import lightning.pytorch as lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)  # it tells the hardware at every fit

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.network = network
            self.sums: list[tuple[Tensor, Tensor]] = []

        def on_train_epoch_start(self) -> None:
            self.sums = []

        def training_step(self, batch: tuple[Tensor, Tensor], _number: int) -> Tensor:
            x, y = batch
            scores = self.network(x)
            loss = nn.functional.cross_entropy(scores, y)
            self.sums.append((loss.detach() * len(y), (scores.argmax(1) == y).sum()))
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=work.rate)

    def run() -> Outcome:
        module = Module(copy.deepcopy(work.network))
        trainer = lightning.Trainer(
            max_epochs=work.epochs,
            accelerator="cpu",
            gradient_clip_val=work.clip,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it would like more loader processes
            trainer.fit(module, DataLoader(TensorDataset(work.x, work.y), work.batch, sampler=_Order(work)))
        loss, correct = (float(torch.stack(values).sum()) / len(work.y) for values in zip(*module.sums, strict=True))
        return Outcome(trainer.global_step, loss, correct, flat(module.network))

    return run


# skorch


def skorch_arm(work: Work) -> Arm:
    """``NeuralNetClassifier.fit`` without validation split and printing."""
    from skorch import NeuralNetClassifier
    from skorch.callbacks import EpochScoring, GradientNormClipping

    def run() -> Outcome:
        accuracy = EpochScoring("accuracy", name="train_accuracy", on_train=True, lower_is_better=False)
        net = NeuralNetClassifier(
            copy.deepcopy(work.network),
            criterion=nn.CrossEntropyLoss,
            optimizer=torch.optim.SGD,
            lr=work.rate,
            batch_size=work.batch,
            max_epochs=work.epochs,
            train_split=None,
            verbose=0,
            iterator_train__sampler=_Order(work),
            callbacks=[GradientNormClipping(work.clip), accuracy],
        )
        net.fit(work.x, work.y)
        last = net.history[-1]
        steps = sum(len(epoch["batches"]) for epoch in net.history)
        return Outcome(steps, last["train_loss"], last["train_accuracy"], flat(net.module_))

    return run


# Keras


def keras_arm(work: Work) -> Arm:
    """``Model.fit`` on torch in this process, the model compiled beforehand."""
    return _keras_arm(work, "torch")


def keras_on_jax_arm(make: Callable[[], Work]) -> Arm:
    """``Model.fit`` on jax, compiled in an earlier run; in a process of its own, as Keras has one backend per process.

    The process makes its own copy of the work and lives as long as this one; its CPU time has to be counted.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    context.Process(target=_serve_jax, args=(there, make), daemon=True).start()
    there.close()  # so that the end of that process is seen here
    here.recv()  # it is ready; what it did until now must not be counted to anyone

    def run() -> Outcome:
        here.send(None)
        outcome: Outcome = here.recv()
        return outcome

    return run


def _serve_jax(requests: Connection, make: Callable[[], Work]) -> None:
    # One thread, as all others; read when jax is imported.
    os.environ["NPROC"] = "1"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    os.environ["JAX_PLATFORMS"] = "cpu"
    run = _keras_arm(make(), "jax")
    requests.send(None)
    while True:
        try:
            requests.recv()
        except EOFError:
            return
        requests.send(run())


def _keras_arm(work: Work, backend: str) -> Arm:
    os.environ["KERAS_BACKEND"] = backend
    import keras

    if keras.backend.backend() != backend:
        raise UnequalWork(f"Keras was imported on {keras.backend.backend()} before it was wanted on {backend}")
    if not isinstance(work.network, nn.Sequential):
        raise UnequalWork("only plain stacks are written in Keras' words")
    layers, first = _as_keras(work.network)
    x = (work.x.permute(0, 2, 3, 1) if work.x.dim() == 4 else work.x).contiguous().numpy()
    y = work.y.numpy()
    model = keras.Sequential([keras.Input(x.shape[1:]), *layers])
    optimizer = keras.optimizers.SGD(work.rate, global_clipnorm=work.clip)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    model.set_weights(first)
    with torch.no_grad():
        expected = work.network(work.x[:8])
    if not torch.allclose(torch.from_numpy(model.predict(x[:8], verbose=0)), expected, atol=1e-5):
        raise UnequalWork(f"Keras on {backend} does not start from the same network")

    def run() -> Outcome:
        model.set_weights(first)
        before = int(optimizer.iterations)
        last = model.fit(x, y, batch_size=work.batch, epochs=work.epochs, verbose=0).history
        return Outcome(int(optimizer.iterations) - before, last["loss"][-1], last["accuracy"][-1])

    return run


def _as_keras(network: nn.Sequential) -> tuple[list[Any], list[Any]]:
    """The same layers in Keras' words, and their weights in Keras' order of axes (channels last)."""
    from keras import layers as keras_layers

    layers: list[Any] = []
    weights: list[Any] = []
    channels = 0  # of what was flattened; torch has them first, Keras last
    for module in network:
        match module:
            case nn.Conv2d():
                layers.append(keras_layers.Conv2D(module.out_channels, module.kernel_size, padding="same"))
                weights += [module.weight.detach().permute(2, 3, 1, 0), module.bias]
                channels = module.out_channels
            case nn.Linear():
                weight = module.weight.detach()
                if channels:
                    weight = weight.view(len(weight), channels, -1).transpose(1, 2).flatten(1)
                layers.append(keras_layers.Dense(module.out_features))
                weights += [weight.t(), module.bias]
                channels = 0
            case nn.ReLU():
                layers.append(keras_layers.ReLU())
            case nn.MaxPool2d():
                layers.append(keras_layers.MaxPooling2D(module.kernel_size))
            case nn.Flatten():
                layers.append(keras_layers.Flatten())
            case _:
                raise TypeError(f"no Keras layer is known here for {module}")
    return layers, [weight.detach().numpy() for weight in weights]
