"""Built-in architectures (MLP, ResNet, VGG), their layers and initialisers.

All of them are known as soon as one is: ``Architecture.parse("vgg:11")`` needs no import of its own.
"""

from weightsmith.networks.models import cnn, dropout, mlp, paper_resnet, resnet, vgg

__all__ = ["cnn", "dropout", "mlp", "paper_resnet", "resnet", "vgg"]
