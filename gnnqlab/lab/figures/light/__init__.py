"""Pages with figures that need no Plotly, no kernel and no network: a renderer of 30 kB draws what players use."""
