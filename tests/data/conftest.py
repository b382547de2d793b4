"""Fixtures of the data tests: empty folders to search, and small data sets in the official forms."""

from __future__ import annotations

import io
import os
import struct
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test touches the user's cache or finds data there."""
    cache = tmp_path / "own-cache"
    monkeypatch.setenv("WEIGHTSMITH_CACHE", str(cache))
    return cache


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without any data."""
    monkeypatch.delenv("WEIGHTSMITH_DATA", raising=False)


@pytest.fixture
def real_data() -> Path:
    """The folder of real data sets; skips when there is none."""
    folder = os.environ.get("WEIGHTSMITH_DATA")
    if not folder:
        pytest.skip("WEIGHTSMITH_DATA is not set")
    return Path(folder)


class Python2Pickle:
    """Writes what Python 2's cPickle wrote under protocol 2: byte strings for text, arrays by _reconstruct."""

    def dumps(self, value: object) -> bytes:
        return b"\x80\x02" + self._write(value) + b"."

    def _write(self, value: object) -> bytes:
        match value:
            case bytes() if len(value) < 256:
                return b"U" + bytes([len(value)]) + value
            case bytes():
                return b"T" + struct.pack("<i", len(value)) + value
            case int():
                return b"K" + bytes([value]) if 0 <= value < 256 else b"J" + struct.pack("<i", value)
            case list():
                return b"]q\x01(" + b"".join(map(self._write, value)) + b"e"
            case dict():
                return b"}q\x02(" + b"".join(self._write(k) + self._write(v) for k, v in value.items()) + b"u"
            case np.ndarray():
                return self._array(value)
            case _:
                raise TypeError(type(value))

    def _array(self, array: np.ndarray) -> bytes:
        kind = (
            b"cnumpy\ndtype\nq\x04U\x02u1K\x00K\x01\x87Rq\x05(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        )
        shape = b"".join(map(self._write, array.shape))
        shape += b"\x85" if array.ndim == 1 else b"\x86"
        made = b"cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        return made + b"(K\x01" + shape + kind + b"\x89" + self._write(array.tobytes()) + b"tb"


@pytest.fixture
def python2() -> Python2Pickle:
    return Python2Pickle()


class Cifar:
    """A little CIFAR-10 or CIFAR-100 with known pixels, in the official member files."""

    def __init__(self, classes: int, per_batch: int = 7) -> None:
        self.classes = classes
        names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"] if classes == 10 else ["train", "test"]
        draw = np.random.default_rng(classes)
        self.batches = {
            name: (draw.integers(0, 256, (per_batch, 3072), np.uint8), draw.integers(0, classes, per_batch))
            for name in names
        }
        self.names = [f"class{i}" for i in range(classes)]

    def expected(self, split: str) -> tuple[np.ndarray, np.ndarray]:
        """Pixels (n, 3, 32, 32) and labels, joined in order."""
        chosen = [batch for name, batch in self.batches.items() if ("test" in name) == (split == "test")]
        pixels = np.concatenate([x for x, _ in chosen])
        # Written out on purpose: channel, row and column are the three slowest-to-fastest parts of a record.
        images = np.stack(
            [np.stack([row[c * 1024 : (c + 1) * 1024].reshape(32, 32) for c in range(3)]) for row in pixels]
        )
        return images, np.concatenate([y for _, y in chosen])

    def binary(self) -> dict[str, bytes]:
        files = {}
        for name, (x, y) in self.batches.items():
            coarse = [b""] * len(y) if self.classes == 10 else [bytes([label // 5]) for label in y]
            records = [c + bytes([label]) + row.tobytes() for c, label, row in zip(coarse, y, x, strict=True)]
            files[f"{name}.bin"] = b"".join(records)
        meta = "batches.meta.txt" if self.classes == 10 else "fine_label_names.txt"
        return {**files, meta: ("\n".join(self.names) + "\n\n").encode()}

    def python(self) -> dict[str, bytes]:
        label = b"label" if self.classes == 10 else b"fine_label"
        files = {}
        for name, (x, y) in self.batches.items():
            batch = {
                b"batch_label": b"testing batch",
                label + b"s": [int(n) for n in y],
                b"data": x,
                b"filenames": [b"%d.png" % i for i in range(len(y))],
            }
            if self.classes == 100:
                batch[b"coarse_labels"] = [int(n) // 5 for n in y]
            files[name] = Python2Pickle().dumps(batch)
        meta = {label + b"_names": [name.encode() for name in self.names], b"num_vis": 3072}
        return {**files, "batches.meta" if self.classes == 10 else "meta": Python2Pickle().dumps(meta)}


@pytest.fixture(params=[10, 100])
def cifar(request: pytest.FixtureRequest) -> Cifar:
    return Cifar(request.param)


@pytest.fixture
def cifar10() -> Cifar:
    return Cifar(10)


@pytest.fixture
def tar(tmp_path: Path) -> Callable[..., Path]:
    """Writes members into a (gzipped) tar archive, in a folder as the official ones do."""

    def write(members: dict[str, bytes], name: str = "archive.tar.gz", folder: str = "cifar/") -> Path:
        path = tmp_path / name
        with tarfile.open(path, "w:gz" if name.endswith("gz") else "w") as archive:
            for member, content in members.items():
                info = tarfile.TarInfo(folder + member)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        return path

    return write


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., Path]:
    """Writes files into a new folder."""

    def write(members: dict[str, bytes], name: str = "files") -> Path:
        for member, content in members.items():
            path = tmp_path / name / member
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return tmp_path / name

    return write


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Path]:
    """A file that no test may bring into being."""
    path = tmp_path / "canary"
    yield path
    assert not path.exists(), "a file ran code"


@pytest.fixture(scope="session")
def photo() -> np.ndarray:
    """A real photograph that comes with scikit-learn, grey, 128×128."""
    from PIL import Image
    from sklearn.datasets import load_sample_image

    return np.asarray(Image.fromarray(load_sample_image("china.jpg")[:384, 100:484]).convert("L").resize((128, 128)))
