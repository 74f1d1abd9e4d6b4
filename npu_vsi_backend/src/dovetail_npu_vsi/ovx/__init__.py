"""The vendor's libraries, found at run time: ovxlib compiles programs, OpenVX runs them.

Nothing of them is needed to build or to import this package.
"""
