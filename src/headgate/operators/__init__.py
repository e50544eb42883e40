"""What each operator does to Arrow batches, and its state."""
