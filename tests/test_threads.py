"""How threads wait is said before torch is there, and only where the user has not said it."""

import subprocess
import sys

import pytest

from kvboost_cli.threads import NUM_SPINS, wait_briefly

SHOW = (
    "import atexit, os, sys; from kvboost_cli import main; sys.argv = ['kvboost', '--version'];"
    "atexit.register(lambda: print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)); main.run()"
)


def test_the_script_says_it_before_torch_is_imported(home_env: dict[str, str]) -> None:
    env = {name: value for name, value in home_env.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([sys.executable, "-c", SHOW], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"{NUM_SPINS} False"


@pytest.mark.parametrize("said", [{"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "active"}])
def test_what_the_user_has_said_stays(said: dict[str, str]) -> None:
    environment = dict(said)
    wait_briefly(environment)
    assert environment == said
