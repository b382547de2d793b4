"""Built-in architectures (MLP, ResNet, VGG), their layers and initialisers."""
