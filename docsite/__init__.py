"""The documentation site: the reference pages that are made from the code, and how pages become a site.

`python -m docsite` writes docs/reference. One module here makes one page, and asks the program itself what there is: a
metric, setting, option, path or key that exists is on its page. What a thing means is said where it is defined, or in
the module that makes its page; nothing here is imported by the program.

`site.py` is for mkdocs: it keeps the links of the pages, which are written to be read in the repository, valid on the
site too.
"""
