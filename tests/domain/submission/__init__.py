"""What would come of objects that nobody has submitted yet."""
