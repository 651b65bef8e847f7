from tests.fakes import fake, loud_sweeps  # noqa: F401 - for every test here
