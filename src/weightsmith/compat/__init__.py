"""Other tools' entry points, so that scripts written for them run on weightsmith: ``ws.compat.WeightWatcher``."""

from weightsmith.compat.weightwatcher import WeightWatcher

__all__ = ["WeightWatcher"]
