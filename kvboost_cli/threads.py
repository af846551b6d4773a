"""How torch's threads wait for each other on a CPU. To be said before torch is imported: OpenMP reads it then."""

from collections.abc import MutableMapping

SPIN_VARIABLE = "GOMP_SPINCOUNT"
NUM_SPINS = 5_000
USERS_OWN = ("OMP_WAIT_POLICY", SPIN_VARIABLE)


def wait_briefly(environment: MutableMapping[str, str]) -> None:
    """Let a thread that waits for others give its core up soon, unless the user has said how threads wait.

    GNU OpenMP lets it spin 300,000 times. While another process has the core that the others need, that is lost time
    at each of a pass's hundreds of barriers: three asks at once take many times as long as one after the other.
    Measured by ``benchmarks/crowd.py``; alone on a machine a process is as fast either way.
    """
    if not any(name in environment for name in USERS_OWN):
        environment[SPIN_VARIABLE] = str(NUM_SPINS)
