"""The runtimes that can be measured, a module each.

A module here is imported by its file in a child process, under an interpreter that may have no
dovetail: besides NumPy and its runtime it imports the standard library alone. It has a class
`Session`:

    prepare(options)                           import what the runtime puts off until its first
                                               model; may be left out
    Session(model, shapes, threads, options)   load a file; `shapes` are those of the inputs to
                                               come, by name, in the model's order; `options` come
                                               from `versus.peers` and the command line
    session.bind(feeds)                        return the call that is timed: NumPy arrays in and
                                               out
    session.outputs(result)                    list the arrays in what that call returned, in the
                                               model's order
    session.facts()                            say in JSON's terms what is worth knowing, such as
                                               the backends that run
"""
