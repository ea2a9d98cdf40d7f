"""The results folder: the store, locks between processes, joint writing of files, model cards.

The stages determine the content of the files.
"""
