"""Built-in architectures (MLP, ResNet, VGG), their layers and initialisers.

Importing this package registers all of them, so ``Architecture.parse("vgg:11")`` needs no further import.
"""

from weightsmith.networks.models import cnn, dropout, mlp, paper_resnet, resnet, vgg

__all__ = ["cnn", "dropout", "mlp", "paper_resnet", "resnet", "vgg"]
