"""Record what goes into the admission and what comes out, and play it again."""
