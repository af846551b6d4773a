"""Errors of the benchmarks.

BenchError
├── TooFewPassages        a folder's documents do not give enough text for one prompt
├── UnknownTask           --tasks names no task
├── UnknownVariant        --variant names no way of reusing KV
├── OrderNotShared        documents would stand in other orders for one variant than for another
├── UnknownSize           --sizes names no prompt size
├── UnknownStrategy       --strategies names no repair strategy
├── BenchPromptTooLong    a prompt and its answer exceed the model's context
├── SizeTooLarge          prompts of a size of --sizes exceed the model's context
├── DocumentsNotStored    a prompt's documents could not be indexed
├── WatchedRunFailed      a process whose memory is measured did not do its work
├── NotFinite             the model's logits are no finite numbers
├── NotARun               --from names a file that is no saved run
├── RunsDiffer            saved runs that cannot be compared, or are the same
└── UnknownPicture        --plot names no kind of picture that can be drawn
"""


class BenchError(Exception):
    """Root of this package's errors."""


class TooFewPassages(BenchError):
    """A folder's documents are too few or too short; the message says how many passages were found and needed."""


class UnknownTask(BenchError):
    """There is no task of that name."""


class UnknownVariant(BenchError):
    """There is no such repair strategy, or it takes no such ratio."""


class OrderNotShared(BenchError):
    """Variants whose prompts would differ cannot be compared."""


class UnknownSize(BenchError):
    """What is given as a prompt size is no number of tokens."""


class UnknownStrategy(BenchError):
    """There is no such repair strategy."""


class BenchPromptTooLong(BenchError):
    """A prompt does not fit the model's context; the message gives the figures."""


class SizeTooLarge(BenchError):
    """Prompts of a size do not fit the model's context; the message gives the figures."""


class DocumentsNotStored(BenchError):
    """What the benchmark wrote itself could not be indexed, so that nothing would be reused."""


class WatchedRunFailed(BenchError):
    """A process whose memory is measured failed, or reused nothing."""


class NotFinite(BenchError):
    """A KL divergence is no finite number, so that there is nothing to compare."""


class NotARun(BenchError):
    """A file is not what ``bench quality --json`` printed."""


class RunsDiffer(BenchError):
    """Saved runs have different models, machines or settings, or hold the same prompts."""


class UnknownPicture(BenchError):
    """A picture is asked for in a format other than PNG and SVG."""
