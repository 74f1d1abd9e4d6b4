"""Compilers in drivers: what they refuse, and the handlers that they set."""


def test_a_kernel_that_the_compiler_refuses_is_given_with_its_log(scene):
    scene(
        """
error = error_of(load)
assert error.code is ErrorCode.COMPILE_FAILED and error.hint, error
assert "'clamp'" in str(error) and "error: the double does not like it" in str(error), error
nothing_is_left()
others_go_on()
set_faults("")
with load() as net:
    runs(net)
""",
        "build_error=chain",
    )


def test_the_hosts_handlers_stay(scene):
    scene(
        """
import faulthandler
faulthandler.enable()
mine = lambda number, frame: seen.append(number)
seen = []
signal.signal(signal.SIGUSR1, mine)
with load() as net:
    runs(net)
assert count("builds")
assert signal.getsignal(signal.SIGUSR1) is mine
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print("interrupted")
else:
    raise AssertionError("Ctrl-C was lost")
os.kill(os.getpid(), signal.SIGUSR1)
assert seen == [signal.SIGUSR1]
""",
        "handlers",
    )
