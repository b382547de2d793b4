"""One file per topic; each has ``PACKAGES`` (what made it) and ``vectors()`` (what they gave on fixed inputs)."""

from __future__ import annotations

import pkgutil

__all__ = ["TOPICS"]

TOPICS = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")))
