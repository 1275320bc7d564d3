"""The promises, tried with thousands of random histories."""
