"""What is reserved for which gang: reservations and their slots, deadlines, effects, vetoes and what is kept free."""
