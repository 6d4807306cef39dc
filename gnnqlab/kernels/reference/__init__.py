"""Plain-PyTorch versions of the compiled kernels: the definition of every result, and the fallback backend."""
