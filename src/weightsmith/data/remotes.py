"""Where the files of a data set can be fetched, pinned by size and SHA-256.

The digests are those of the files at their official origins. (A distribution may pack the same IDX files with other
gzip headers. Such files are read all the same: a digest is only asked of what is fetched.)
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["REMOTES", "Remote"]


@dataclass(frozen=True)
class Remote:
    """A file to fetch: where it is, and the size and SHA-256 it must have."""

    url: str
    size: int
    sha256: str

    @property
    def file(self) -> str:
        """The name it is kept under."""
        return self.url.rpartition("/")[2]


def _at(base: str, *files: tuple[str, int, str]) -> tuple[Remote, ...]:
    return tuple(Remote(f"{base}/{name}", size, sha256) for name, size, sha256 in files)


REMOTES = {
    "mnist": _at(
        "https://storage.googleapis.com/cvdf-datasets/mnist",
        (
            "train-images-idx3-ubyte.gz",
            9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        ),
        (
            "train-labels-idx1-ubyte.gz",
            28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        ),
        (
            "t10k-images-idx3-ubyte.gz",
            1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        ),
        (
            "t10k-labels-idx1-ubyte.gz",
            4_542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    "fashion-mnist": _at(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/"
        "b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion",
        (
            "train-images-idx3-ubyte.gz",
            26_421_880,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        ),
        (
            "train-labels-idx1-ubyte.gz",
            29_515,
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        ),
        (
            "t10k-images-idx3-ubyte.gz",
            4_422_102,
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        ),
        (
            "t10k-labels-idx1-ubyte.gz",
            5_148,
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
    "cifar10": _at(
        "https://www.cs.toronto.edu/~kriz",
        (
            "cifar-10-python.tar.gz",
            170_498_071,
            "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        ),
    ),
    "cifar100": _at(
        "https://www.cs.toronto.edu/~kriz",
        (
            "cifar-100-python.tar.gz",
            169_001_437,
            "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
        ),
    ),
}
"""The files of each data set that can be fetched, by the set's name."""
