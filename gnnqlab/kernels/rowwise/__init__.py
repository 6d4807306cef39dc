"""Row-wise and elementwise kernels."""
