"""The dashboard: one page that shows the cluster, its queues and gangs, live.

`pages.py` serves what is in `static/`: HTML, CSS and JavaScript modules as the browser reads them, without a build step
and without anything from elsewhere. The page has no data of its own: it reads `/api/v1/stream` and what is told about
a gang. No decision is made here, and nothing that the page sends changes anything.
"""
