"""Files for runtimes other than TensorFlow: LiteRT, OpenVINO, ONNX Runtime."""
