"""The function `equivalent`: two programs, or the stages of one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from xlashape.errors import InvalidArgumentError, UnsupportedError, XlashapeError
from xlashape.evaluation.run_module import module_of
from xlashape.hlo import HloModule
from xlashape.hlo.files.inputs import Input, content
from xlashape.hlo.module_proto.shown_frames import showing_frames
from xlashape.hlo.verifier import check
from xlashape.reports.copies.pass_dumps import Dump, dumps_beside, one_of
from xlashape.reports.equivalent.answer import Equivalent, PassStage, source_of
from xlashape.reports.equivalent.compare import DIFFERS, EQUAL, OVER_REALS, UNKNOWN, Comparison, Verdict
from xlashape.reports.equivalent.program import ComparedProgram


def equivalent(a: Any, b: Any = None, *, seed: int = 0, frames: str | None = None) -> Equivalent:
    """Whether two programs compute the same; of one directory of dumps (`--xla_dump_hlo_pass_re=.*`), whether each
    stage computes what the one before computes.

    `a` and `b` are anything that `HloModule.of` takes. One of them may be the partitioned form of the other. The
    verdict is one of

    - `equal`: with the same roundings. `equal over the reals`: as formulas; rounding, overflow and NaN may differ.
    - `differs`: ordinary inputs show it: `output`, `element`, `a_value`, `b_value`, `inputs`, `instruction`.
    - `unknown`: `reasons` says why, such as a custom call that is not known, or elided constants.

    `seed` draws other inputs. With `frames="all"`, `source` names every frame that called an operation, and not the
    line of the user's own code alone. What lies below HLO, such as kernels and LLVM, is not seen. Raises
    InvalidArgumentError for programs whose inputs or outputs do not correspond, and InvalidModuleError for one that
    breaks a rule of HLO and so cannot be evaluated.

    >>> a = "ENTRY e { x = f32[4] parameter(0)  y = f32[4] parameter(1)  ROOT r = f32[4] subtract(x, y) }"
    >>> b = "ENTRY e { x = f32[4] parameter(0)  y = f32[4] parameter(1)  ROOT r = f32[4] subtract(y, x) }"
    >>> found = equivalent(a, b)
    >>> found.verdict, found.output, found.instruction
    ('differs', 0, 'r')
    """
    with showing_frames(frames):
        if b is None:
            return _stages(a, seed)
        modules: list[HloModule] = []
        try:
            modules += [module_of(a), module_of(b)]
            comparison = Comparison(modules, seed)
            return Equivalent(comparison.compare(comparison.whole, ComparedProgram(modules[1])))
        except UnsupportedError as error:
            return Equivalent(Verdict(UNKNOWN, [error.message]))
        except XlashapeError:
            raise
        except Exception:
            for module in modules:  # whatever breaks no rule of HLO can be evaluated
                check(module)
            raise


def _stages(directory: Any, seed: int) -> Equivalent:
    if not isinstance(directory, (str, os.PathLike)) or not Path(cast("str", directory)).exists():
        raise InvalidArgumentError(
            "equivalent takes two programs, or a directory of dumps that --xla_dump_hlo_pass_re=.* made", field="b"
        )
    path = Path(cast("str", directory))
    last = one_of(path) if path.is_dir() else path
    dumps = dumps_beside(last)
    if len(dumps) < 2:
        what = "has no dumps of passes" if path.is_dir() else "is one file, without dumps of passes beside it"
        how = "compile with --xla_dump_hlo_pass_re=.*, or unpack the archive that has them"
        raise InvalidArgumentError(f"{str(path)!r} {what}: {how}", field="a")
    if dumps[-1].path != last:
        dumps.append(Dump(last, dumps[-1].number + 1, "", "the last pass", ""))
    texts = [content(Input(str(dump.path), str(dump.path))) for dump in dumps]
    first = module_of(texts[0])
    comparison = Comparison([first], seed)
    passes = {(dump.pipeline, dump.after) for dump in dumps}
    before, text, stages = comparison.whole, texts[0], list[PassStage]()
    shown: Verdict | None = None
    is_sampled = False
    broken: PassStage | None = None
    for previous, dump, data in zip(dumps, dumps[1:], texts[1:], strict=False):
        found = Verdict(EQUAL)
        name = dump.pipeline if dump.after == "pipeline-start" or dump.pipeline == "copy-insertion" else dump.after
        if dump.after == "pipeline-start" and data != text and (previous.pipeline, previous.before) in passes:
            name = previous.before  # the pass begins a pipeline of its own once it has changed the program
        if data != text:
            try:
                this = ComparedProgram(module_of(data))
                found = comparison.compare(before, this)
                before, text = this, data
            except UnsupportedError as error:
                found = Verdict(UNKNOWN, [error.message])
        is_sampled = is_sampled or found.is_sampled
        instruction = found.instruction
        named = None if instruction is None else instruction.name
        stage = PassStage(name, dump.path.name, found.verdict, named, source_of(instruction), tuple(found.reasons))
        stages.append(stage)
        if found.verdict == DIFFERS and broken is None:
            shown, broken = found, stage
    verdicts = {stage.verdict for stage in stages}
    worst = next((v for v in (DIFFERS, UNKNOWN, OVER_REALS) if v in verdicts), EQUAL)
    reasons = list(dict.fromkeys(reason for stage in stages for reason in stage.reasons))
    return Equivalent(shown or Verdict(worst, reasons, is_sampled=is_sampled), tuple(stages), broken)
