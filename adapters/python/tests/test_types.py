"""Type checkers know the package, and the native part is what its stubs say."""

import subprocess
import sys


def check(*words, folder):
    done = subprocess.run([sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_are_as_the_native_part(tmp_path):
    check("mypy.stubtest", "manyway._native", folder=tmp_path)


def test_types_fit(tmp_path):
    (tmp_path / "use.py").write_text(
        "import manyway\n"
        "frame = manyway.run('x.toml', set={'law': 'lia'}).groups\n"
        "reveal_type(frame)\n"
        "manyway.run('x.toml', leve='packet')  # type: ignore[call-arg]\n"
    )
    check("mypy", "--strict", "-p", "manyway", folder=tmp_path)
    check("mypy", "--strict", "use.py", folder=tmp_path)
