"""Processes that are forked."""


def test_two_processes_share_a_folder(kept_scene):
    kept_scene("""
child = os.fork()  # before anything is opened
with load(options={"GpuAcc": {"artefacts": given["folder"]}}) as net:
    runs(net)
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""")


def test_a_process_that_was_forked_is_told_so(scene):
    scene("""
net = load()
runs(net)
child = os.fork()
if child == 0:
    try:
        assert error_of(net.run, feeds).code is ErrorCode.FORKED
        error = error_of(load)
        assert error.code is ErrorCode.FORKED and "spawn" in error.hint, error
        others_go_on()
        os._exit(0)
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(1)
assert os.waitpid(child, 0)[1] == 0
runs(net)
net.unload()
nothing_is_left()
""")
