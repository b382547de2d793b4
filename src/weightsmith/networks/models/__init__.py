"""Architectures that weightsmith builds: MLP, ResNet, VGG, and the parts they are made of."""
