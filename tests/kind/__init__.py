"""kind/up.sh without docker: what it checks before it begins, and what it would do with tools that only take notes."""
