"""The folder that is put on the path of a process with a fault; see ``sitecustomize.py``."""
