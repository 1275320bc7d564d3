"""The manifests against the program that they deploy, read as files; `tests/controlplane` applies them."""
