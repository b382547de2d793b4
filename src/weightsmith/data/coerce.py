"""Convert every accepted form of data to :class:`Data`."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.data.tensors import SPLITS, Data, Split

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["NAMELESS", "as_data"]

NAMELESS = "arrays"  # name of data that came without a name and class names

_PASS = 64  # rows of a batch while labels are read
_LOOK = 1 << 26  # bytes collected between two checks of the free memory

_FORMS = "Data, a data set's name, (x, y), (x, y, weights), {'train': (x, y), …}, a torch Dataset or a DataLoader"


def as_data(given: Any, *, splits: Sequence[str] = ("train", "test")) -> Data:
    """``given`` as :class:`Data`: Data, a name, ``(x, y)``, a mapping of splits, a torch Dataset or a DataLoader.

    Whole numbers in ``y`` are classes, booleans labels, floats values to be predicted.
    ``splits`` are those the caller needs: of a named set only these are read, and inputs without a split name become
    the first of them. A Dataset or DataLoader is read once, in the order of its rows.

    >>> as_data(([[0.0, 1.0], [2.0, 3.0]], [0, 1]), splits=("test",))
    Data('arrays', test 2, input (2,), 2 classes)
    """
    from torch.utils.data import DataLoader, Dataset

    if isinstance(given, Data):
        return given
    if isinstance(given, str):
        from weightsmith.data.datasets import load

        return load(given, splits=splits)
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in SPLITS]
        if unknown:
            raise UnknownName("split", str(unknown[0]), SPLITS)
        parts = {name: _as_split(part) for name, part in given.items()}
    elif isinstance(given, Split | Dataset | DataLoader | tuple | list):
        parts = {splits[0]: _as_split(given)}
    else:
        raise UsageError(f"data may be {_FORMS}, not a {type(given).__name__}")
    return Data(
        NAMELESS,
        train=parts.get("train"),
        validation=parts.get("validation"),
        test=parts.get("test"),
        classes=tuple(map(str, range(_targets(list(parts.values()))))),
        origin=f"given as {type(given).__name__}",
    )


def _targets(parts: list[Split]) -> int:
    """The number of classes, or of columns of the targets."""
    columns = [part.y.shape[1] for part in parts if part.y.ndim == 2]
    return columns[0] if columns else 1 + max((int(part.y.max()) for part in parts), default=0)


def _as_split(given: Any) -> Split:
    import torch
    from torch.utils.data import DataLoader, Dataset, TensorDataset

    match given:
        case Split():
            return given
        case TensorDataset():
            return _as_split(given.tensors)
        case DataLoader() | Dataset():
            return _read_through(given)
        case (x, y):
            return Split(_channels_first(_inputs(x)), _labels(y))
        case (x, y, weights):
            return Split(_channels_first(_inputs(x)), _labels(y), weights=_tensor(weights).to(torch.float32))
        case _:
            raise UsageError(f"a split is written as (x, y) or (x, y, weights), not as {type(given).__name__}")


def _read_through(given: Any) -> Split:
    """A Dataset or DataLoader, in the order of its rows: in memory if they fit, else to be read when needed.

    Rows that can be read by number are streamed from the data set itself; rows that only come one after another (an
    IterableDataset, a custom sampler or ``collate_fn``) are kept in a temporary file.
    """
    from torch.utils.data import DataLoader

    from weightsmith.data.streams.datasets import fixed_draws
    from weightsmith.data.streams.rows import fits

    batched = isinstance(given, DataLoader)
    dataset = given.dataset if batched else given
    count = _numbered_rows(given)
    with fixed_draws():
        _warn_of_random_rows(dataset)
        if count and not fits(count * _row_bytes(dataset[0])):
            return _streamed(dataset, count, given.num_workers if batched else 0)
        if batched:
            return _collected(_in_order(given), batched=True)
        # Plain iteration over a map-style Dataset only ends at IndexError, which not every Dataset raises.
        return _collected((given[i] for i in range(len(given))) if hasattr(given, "__len__") else given, batched=False)


def _numbered_rows(given: Any) -> int:
    """The number of rows that can be read by number, in their order; 0 if they only come one after another."""
    from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler, default_collate

    if not isinstance(given, DataLoader):
        return len(given) if hasattr(given, "__len__") and not isinstance(given, IterableDataset) else 0
    plain = isinstance(given.sampler, SequentialSampler) or _shuffles(given, RandomSampler)
    if given.batch_size is None or given.collate_fn is not default_collate or not plain:
        return 0
    rows = len(given.dataset)  # type: ignore[arg-type]
    return rows - rows % given.batch_size if given.drop_last else rows


def _shuffles(loader: Any, kind: type) -> bool:
    sampler = loader.sampler
    return isinstance(sampler, kind) and not sampler.replacement and len(sampler) == len(loader.dataset)  # type: ignore[attr-defined, arg-type]


def _row_bytes(item: Any) -> int:
    return _inputs(_tensor(item[0])).nbytes if isinstance(item, tuple | list) and len(item) == 2 else 0


def _streamed(dataset: Any, rows: int, workers: int) -> Split:
    """A map-style data set, read when needed; one pass over it reads the labels and computes the digest."""
    import torch

    from weightsmith.data.streams.datasets import DatasetRows
    from weightsmith.data.streams.rows import StreamedRows, values_digest

    x, _ = _pair(0, dataset[0])
    reader = DatasetRows(dataset, _pair, (rows, *x.shape[1:]), x.dtype, workers)
    labels: list[Tensor] = []

    def inputs() -> Iterator[Tensor]:
        numbers = (np.arange(start, min(start + _PASS, rows)) for start in range(0, rows, _PASS))
        for x, y in reader.pairs(numbers):
            if x.shape[1:] != reader.shape[1:] or x.dtype != reader.dtype:
                raise DataMismatch(f"rows have the shapes {tuple(x.shape[1:])} and {reader.shape[1:]}; one is needed")
            labels.append(y)
            yield x

    digest = values_digest(reader.shape, reader.dtype, inputs())
    return Split(StreamedRows(dataclasses.replace(reader, digest=digest)), torch.cat(labels))


def _pair(number: int, item: Any) -> tuple[Tensor, Tensor]:
    """Input and label of one row, each with a first dimension of one."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise DataMismatch(f"item {number} of the data is a {type(item).__name__}, not the pair (input, label)")
    return _inputs(_tensor(item[0])[None]), _labels(_tensor(item[1])[None])


def _in_order(loader: Any) -> Any:
    """The batches of a DataLoader; one that shuffles is read in the order of its rows, the same each time."""
    from torch.utils.data import DataLoader, RandomSampler

    if loader.batch_size is None or not _shuffles(loader, RandomSampler):
        return iter(loader)
    return iter(
        DataLoader(
            loader.dataset,
            batch_size=loader.batch_size,
            collate_fn=loader.collate_fn,
            num_workers=loader.num_workers,
            drop_last=loader.drop_last,
        )
    )


def _warn_of_random_rows(dataset: Any) -> None:
    """Warn if the first row differs between two reads: each row is read once, so a random transform is applied once."""
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__") and len(dataset)):
        return
    first, again = dataset[0], dataset[0]
    pair = isinstance(first, tuple | list) and isinstance(again, tuple | list) and len(first) == len(again) == 2
    if pair and not _tensor(first[0]).equal(_tensor(again[0])):
        warnings.warn(
            "the data set applies a random transform when a row is read; each row is read once and keeps its draw: "
            "give the plain rows, and augment in training (augment='crop-flip')",
            stacklevel=2,
        )


def _collected(items: Iterable[Any], *, batched: bool) -> Split:
    """All items in their order: in memory as long as they fit, beyond that in a temporary file."""
    import torch

    from weightsmith.data.streams.rows import StreamedRows, fits
    from weightsmith.data.streams.spool import Spool, SpooledRows

    held: list[Tensor] = []
    labels: list[Tensor] = []
    size, shape, spool = 0, None, None
    for number, item in enumerate(items):
        if batched:
            if not isinstance(item, tuple | list) or len(item) != 2:
                raise DataMismatch(
                    f"batch {number} of the data is a {type(item).__name__}, not the pair (input, label)"
                )
            x, y = _inputs(item[0]), _labels(item[1])
        else:
            x, y = _pair(number, item)
        shape = (x.shape[1:], x.dtype) if shape is None else shape
        if x.shape[1:] != shape[0]:
            raise DataMismatch(f"input {number} has shape {tuple(x.shape[1:])}, the first {tuple(shape[0])}")
        held.append(x)
        labels.append(y)
        size += x.nbytes
        if spool is None and size // _LOOK > (size - x.nbytes) // _LOOK and not fits(size):
            spool = Spool("the data set")
        while spool is not None and held:
            spool.write(held.pop(0).to(shape[1]).contiguous().view(torch.uint8).reshape(-1).numpy().data)
    if shape is None:
        raise DataMismatch("the data hold no items")
    y = torch.cat(labels)
    if spool is None:
        return Split(torch.cat(held), y)
    spool.close()
    return Split(StreamedRows(SpooledRows(spool.file, (len(y), *shape[0]), shape[1])), y)


def _inputs(x: Any) -> Tensor:
    """Inputs as a tensor: uint8 and whole numbers stay, everything else becomes float32, and must be finite."""
    import torch

    tensor = _tensor(x)
    if tensor.dtype == torch.uint8:
        return tensor
    if not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype != torch.bool:
        return tensor.to(torch.int64)
    if tensor.is_complex():
        raise DataMismatch("inputs must be real numbers, not complex")
    tensor = tensor.to(torch.float32)
    # Minimum and maximum suffice (both are NaN if any value is): torch.isfinite would make three copies of the data.
    if tensor.numel() and not all(map(math.isfinite, torch.stack(torch.aminmax(tensor)).tolist())):
        row = int((~torch.isfinite(tensor)).nonzero()[0, 0])
        raise DataMismatch(f"inputs must be finite; row {row} holds nan or infinity")
    return tensor


def _channels_first(x: Tensor) -> Tensor:
    """Refuse images with channels last, as in NumPy and Keras: their axes would be misread."""
    if x.ndim == 4 and x.shape[3] in (1, 3, 4) and min(x.shape[1:3]) > 4:
        raise DataMismatch(
            f"inputs of shape {tuple(x.shape)} look like images with their channels last; give them as (n, channels, "
            "height, width) by x.permute(0, 3, 1, 2), or NumPy's x.transpose(0, 3, 1, 2)"
        )
    return x


def _labels(y: Any) -> Tensor:
    """Targets as a tensor: whole numbers are classes, booleans labels, floats values (a column each)."""
    import torch

    tensor = _tensor(y)
    if tensor.is_complex():
        raise DataMismatch(f"targets must be classes, booleans or real numbers, not {tensor.dtype}")
    columns = tensor[:, None] if tensor.ndim == 1 else tensor
    if tensor.is_floating_point():
        if tensor.ndim == 1 and len(tensor) and bool((tensor == tensor.round()).all()):
            raise DataMismatch(
                "y holds whole numbers as floats: for classes give integers (y.astype(int)), for values to be "
                "predicted a column (y[:, None])"
            )
        return columns.to(torch.float32)
    return columns if tensor.dtype == torch.bool else tensor.to(torch.int64)


def _tensor(values: Any) -> Tensor:
    import torch

    if isinstance(values, torch.Tensor):
        return values.detach().cpu()
    # A Pillow image would become an array with channels last; it must go through a transform first.
    numeric = isinstance(values, list | tuple | int | float) or hasattr(values, "__array__")
    array = np.asarray(values) if numeric else None
    if array is None or array.dtype.kind not in "buifc":
        kind = type(values).__name__ if array is None else f"an array of {array.dtype}"
        raise DataMismatch(
            f"inputs and labels must be numbers, not {kind}; convert them by a transform such as ToTensor"
        )
    # Copied if the array is read-only, of foreign byte order or with negative steps: torch accepts none of these.
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), order="C", copy=not array.flags.writeable))
