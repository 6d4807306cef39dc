"""What the papers prove, as pure functions of tensors and numbers."""
