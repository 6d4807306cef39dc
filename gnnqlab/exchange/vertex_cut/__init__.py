"""Exchange under vertex-cuts: mirrors send partial sums to masters, which send totals back."""
