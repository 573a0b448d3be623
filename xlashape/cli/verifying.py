"""Whether modules keep XLA's rules: `verify`."""

from __future__ import annotations

import click

from xlashape.cli.completing import complete_files
from xlashape.cli.connection import ServerAddress, answer_options
from xlashape.cli.modules import document_of, naming
from xlashape.cli.output import echo, print_json
from xlashape.cli.progress import progress


@click.command(short_help="Whether a module keeps XLA's rules.")
@click.argument("file", shell_complete=complete_files)
@click.option(
    "--limit", type=click.IntRange(min=0), default=0, metavar="N", help="The most problems to list; 0 lists all."
)
@click.option(
    "--replica-count",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many replicas the module is for; by default what its text or its device assignment says.",
)
@click.option("--num-partitions", type=click.IntRange(min=1), metavar="N", help="The same for partitions.")
@click.option("--allow-unbounded", is_flag=True, help="Allow dimensions without a bound, f32[?].")
@answer_options
def verify(
    file: str,
    limit: int,
    replica_count: int | None,
    num_partitions: int | None,
    allow_unbounded: bool,
    server: ServerAddress | None,
    timeout: float,
    as_json: bool,
) -> int:
    """Whether the HLO module in FILE keeps the rules of XLA's verifier: names, order, operands, shapes, calls, shardings, schedule.

    A line for each problem, and exit code 1 if there is one. `-` is standard input; FILE#NAME is one of several modules in a profile; modules/… is one
    that --server keeps.
    """
    # Deferred: the rules take longer to load than the command line.
    from xlashape.hlo.verifier import verify as problems_of

    with naming(file):
        document = document_of(file, server, timeout)
    progress("checking")
    config = document.config
    if config is not None:
        replica_count = config.replica_count if replica_count is None else replica_count
        num_partitions = config.num_partitions if num_partitions is None else num_partitions
    problems = problems_of(
        document.module,
        replica_count=replica_count,
        num_partitions=num_partitions,
        allow_unbounded_dimensions=allow_unbounded,
    )
    shown = problems[: limit or None]
    if as_json:
        found = [problem._asdict() for problem in shown]
        print_json("verify.v1", {"module": file, "problem_count": len(problems), "problems": found})
    else:
        for problem in shown:
            echo(str(problem))
        if len(problems) > len(shown):
            echo(f"… and {len(problems) - len(shown)} more")
        if not problems:
            count = sum([len(computation.instructions) for computation in document.module.computations])
            echo(f"{file}: {count} instructions keep the rules")
    return 1 if problems else 0
