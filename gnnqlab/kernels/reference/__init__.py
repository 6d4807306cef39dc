"""Plain-PyTorch twins of the compiled kernels: the definition of every result, and the way without a compiler."""
