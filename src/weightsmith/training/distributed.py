"""Data-parallel training: each process computes the gradient of its share of every batch, and the gradients are summed.

    torchrun --nproc-per-node 2 -m weightsmith train digits --network mlp:64,32 --out runs/two

The batch is the global one: process r of p gets its r-th part, the loss of a batch is the mean over all of its images,
and one sum over the flat gradient (``training/engines/flat.py``) makes every process take the same step. So the
number of processes changes only the order of additions, except for batch norm (its statistics are those of the share)
and dropout (each process draws its own masks).
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch, UsageError, WeightsmithError, WorkerLost

__all__ = ["Team", "joined", "team"]

Made = TypeVar("Made")


@dataclass(frozen=True)
class Team:
    """The process group, seen from one process; a single process is a team of one."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this process (rank 0) writes the files and reports progress."""
        return self.rank == 0

    def share(self, rows: Tensor) -> Tensor:
        """This process's part of ``rows``, in order; the parts differ in length by at most one."""
        return rows if self.size == 1 else rows.tensor_split(self.size)[self.rank]

    def sum(self, tensor: Tensor) -> Tensor:
        """Add ``tensor`` up over all processes, in place."""
        if self.size > 1:
            with self._listening():
                torch.distributed.all_reduce(tensor)
        return tensor

    def check_same(self, digests: Mapping[str, str], names: Sequence[str]) -> None:
        """Refuse, in every process, data that are not the same in all of them."""
        if self.size == 1:
            return
        _, first = self.from_first({}, dict(digests))
        other = [name for name in names if first.get(name) != digests.get(name)]
        if int(self.sum(torch.tensor(len(other)))):
            where = f"the {other[0]} split of process {self.rank}" if other else "a split of another process"
            raise DataMismatch(f"{where} differs from the first one's: every process must read the same rows in order")

    @torch.no_grad()
    def average_buffers(self, network: nn.Module) -> None:
        """Give every process the mean of the running statistics of batch and instance norms."""
        if self.size == 1:
            return
        norms = [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._NormBase)]
        for buffer in (buffer for norm in norms for buffer in norm.buffers()):
            if buffer.is_floating_point():
                self.sum(buffer).div_(self.size)

    def from_first(self, tensors: Mapping[str, Tensor], facts: Any) -> tuple[dict[str, Tensor], Any]:
        """Broadcast the tensors and the JSON values of the first process to all others."""
        if self.size == 1:
            return dict(tensors), facts
        kinds = {name: [list(value.shape), str(value.dtype).removeprefix("torch.")] for name, value in tensors.items()}
        kinds, facts = json.loads(self._text_of_first(json.dumps([kinds, facts])))
        received: dict[str, Tensor] = {}
        for name, (shape, dtype) in kinds.items():
            tensor = tensors[name].contiguous() if self.first else torch.empty(shape, dtype=getattr(torch, dtype))
            # As bytes, because gloo does not support every type; flattened, as a scalar has no view as bytes.
            self._broadcast(tensor.reshape(-1).view(torch.uint8))
            received[name] = tensor
        return received, facts

    def unless_first_refuses(self, make: Callable[[], Made]) -> Made:
        """``make()`` in every process; an error of the first one is raised in all of them, so that none waits.

        A process that failed alone would leave the others in the middle of an exchange, which gloo does not always
        survive: it may abort the process instead of raising.
        """
        refused: WeightsmithError | None = None
        try:
            made = make()
        except WeightsmithError as error:
            refused = error
        _, sentence = self.from_first({}, None if refused is None else str(refused))
        if refused is not None:
            raise refused
        if sentence is not None:
            raise UsageError(f"the first process refuses: {sentence}")
        return made

    def _text_of_first(self, text: str) -> str:
        content = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
        length = torch.tensor(len(content))
        self._broadcast(length)
        if not self.first:
            content = torch.empty(int(length), dtype=torch.uint8)
        self._broadcast(content)
        return bytes(content.numpy()).decode()

    def _broadcast(self, tensor: Tensor) -> None:
        with self._listening():
            torch.distributed.broadcast(tensor, 0)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Raise a readable error when another process has ended."""
        try:
            yield
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise WorkerLost(
                f"process {self.rank} of {self.size} can no longer reach the others ({reason}); one of them has ended, "
                "and its message says why"
            ) from error


def team() -> Team:
    """The team this process belongs to: that of torch's default process group, or itself alone."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return Team(torch.distributed.get_rank(), torch.distributed.get_world_size())
    return Team()


@contextmanager
def joined() -> Iterator[Team]:
    """Join the process group of torchrun (from WORLD_SIZE and RANK); without it, a team of one.

    Inside another process group, or in a process that torchrun did not start, nothing is joined.
    """
    wanted = os.environ.get("WORLD_SIZE", "1")
    if not wanted.isdigit() or int(wanted) < 1:
        raise UsageError(f"WORLD_SIZE must be a number of processes, not {wanted!r}; start with torchrun")
    if int(wanted) == 1 or torch.distributed.is_initialized():
        yield team()
        return
    # The functions of this module have the current group as a default argument. If it were imported within our group
    # (torch.optim does so through torch._dynamo), it would keep the group, and gloo's threads, until the interpreter
    # shuts down; a thread that then frees a tensor requests the interpreter's lock and aborts the process.
    importlib.import_module("torch.distributed.nn.functional")
    try:
        torch.distributed.init_process_group("gloo")
    except (ValueError, RuntimeError) as error:
        raise UsageError(f"the processes could not join ({error}); start them with torchrun") from error
    try:
        yield team()
    finally:
        torch.distributed.destroy_process_group()
