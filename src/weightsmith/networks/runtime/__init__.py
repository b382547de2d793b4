"""Networks as ONNX files, in float32 and in 8 bits, run by onnxruntime."""
