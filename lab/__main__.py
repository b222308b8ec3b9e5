"""`python -m lab`."""

try:
    from lab.cli import main
except ModuleNotFoundError as error:
    if str(error.name).startswith("lab"):
        raise
    raise SystemExit(
        f"Error while starting the lab: this Python has no module {error.name}. "
        "Run `make` once, then `.venv/bin/python -m lab ...`."
    ) from None

main()
