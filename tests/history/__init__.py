"""What the history counts, keeps and tells."""
