"""Disclosure control: the one exit through which a site's numbers leave its own folder.

One file for each kind of document, imported by name: a check of an extract need not load what an evaluation needs.
"""
