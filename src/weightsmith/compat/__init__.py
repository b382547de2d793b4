"""Other tools' entry points and callbacks: ``WeightWatcher``, ``lightning_callback``, ``trainer_callback``."""

from weightsmith.compat.callbacks import lightning_callback, trainer_callback
from weightsmith.compat.weightwatcher import WeightWatcher

__all__ = ["WeightWatcher", "lightning_callback", "trainer_callback"]
