"""Ready grids: one YAML each (``bench ls grids``)."""
