"""The exchange of vertex-cuts: partial sums of replicated nodes go to their masters, totals come back."""
