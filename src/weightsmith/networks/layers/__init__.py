"""The layers of a network as matrices, whether it is a module, a state dict, a file or a live Keras or ONNX model."""
