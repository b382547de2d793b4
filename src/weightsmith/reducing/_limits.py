"""How few units a method that looks at a Gram matrix may leave."""

from __future__ import annotations

from weightsmith.core.errors import UsageError
from weightsmith.reducing.gram import Gram

__all__ = ["least_kept"]


def least_kept(site: str, units: int, gram: Gram, keep: int | None) -> int:
    """``keep``, or 1 where nothing is asked for; refuses what the site cannot do."""
    if gram.units != units:
        raise UsageError(f"{site}: has {units} units, but angles of {gram.units}")
    if keep is not None and not 1 <= keep <= units:
        raise UsageError(f"{site}: can keep 1 to {units} units, not {keep}")
    return keep or 1
