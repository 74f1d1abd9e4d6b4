"""Measure dovetail beside other runtimes in child processes, in turns, after comparing answers.

    `command`, the options of `benchmarks/models.py`
            -> problem   the model, its inputs and expected outputs, its multiply-accumulates
            -> measuring the children (`child`, in which `worker` runs one of `runtimes`), compared
                         (`agreement`), then timed by turns, disturbed blocks again, the machine's
                         peak beside them (`peak`)
            -> results   the arithmetic, and JSON
            -> tables    for terminals and in Markdown

A runtime to compare with is a line in `peers` and a module in `runtimes`.
"""
