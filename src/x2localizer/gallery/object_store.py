from contextlib import contextmanager
@contextmanager
def store_errors(address):
    yield
