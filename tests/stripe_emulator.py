"""The process `python -m tests.stripe_emulator --port 8420`: localstripe, for this machine and this run only.

As it comes it writes its store to one file for the whole machine after every request, and listens to the world."""

import argparse

from aiohttp import web
from localstripe.resources import Store
from localstripe.server import app


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    Store.dump_to_disk = lambda store: None
    web.run_app(app, host="127.0.0.1", port=parser.parse_args().port, print=None, access_log=None)


if __name__ == "__main__":
    main()
