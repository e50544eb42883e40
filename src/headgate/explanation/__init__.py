"""Queries explained to users: the shared graph as data, operators in words, and the layout of the drawing."""
