"""What every test gets: the harness as a pytest plugin, and no time limit for an example of hypothesis."""

from hypothesis import settings

pytest_plugins = ["harness.plugin"]

# A busy machine is no counterexample; the harness limits each test as a whole.
settings.register_profile("gdbrr", deadline=None)
settings.load_profile("gdbrr")
