"""Why one gang waits, or is where it is, in numbers and names.

What is asked about is gathered on the event loop in well under a millisecond (`material`), as values and copies. All
else is worked out from these in another thread (`inquiry`, `account`). Nothing here decides or changes anything.
"""
