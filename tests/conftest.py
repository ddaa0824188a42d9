"""What every test gets: the harness as a pytest plugin."""

pytest_plugins = ["harness.plugin"]
