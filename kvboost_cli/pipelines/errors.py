"""Errors of the two flows.

PipelineError
├── NoDocuments         nothing to index under the given paths
├── NothingFound        the search for documents to ask found none
├── DocumentNotFound    -d names no document of the store and no file
│   └── DocumentGone    its file cannot be read any more
├── AmbiguousDocument   -d names several documents of the store
├── PromptTooLong       documents, question and answer exceed the model's context
│   └── ConversationTooLong with the earlier turns they do
├── DeviceMemoryShort   the prompt needs more memory than the device has free
├── EmptyQuestion       there is nothing to ask
├── SettingRefused      a setting that this model cannot be used with
├── BudgetRefused       a size or a budget that cannot be
├── ForeignKV           a bundle or a store to import is of another model or recipe
├── SameStore           a store would be imported into itself
└── FidelityNotMeasured the fidelity gate could not be run
    └── ProbesRefused   model or settings do not suit the gate's built-in texts
"""


class PipelineError(Exception):
    """Root of this package's errors."""


class NoDocuments(PipelineError):
    """There is no document to work on."""


class NothingFound(PipelineError):
    """No document of the store has a word of the question."""


class DocumentNotFound(PipelineError):
    """A name is neither a document of the store nor a file."""


class DocumentGone(DocumentNotFound):
    """A document's file cannot be read any more."""


class NotInConversation(DocumentNotFound):
    """A name is none of the documents of the conversation."""


class AmbiguousDocument(PipelineError):
    """A name fits several documents of the store."""


class PromptTooLong(PipelineError):
    """The prompt does not fit the model's context; the message gives the figures."""


class ConversationTooLong(PromptTooLong):
    """Documents, earlier turns and the question do not fit the model's context; the message gives the figures."""


class DeviceMemoryShort(PipelineError):
    """The prompt does not fit the device's free memory; the message gives both in bytes."""


class EmptyQuestion(PipelineError):
    """The question has no text."""


class SettingRefused(PipelineError):
    """A setting cannot be used with this model."""


class BudgetRefused(PipelineError):
    """A size that cannot be read, or a budget that no store can keep."""


class ForeignKV(PipelineError):
    """What is to be imported was made by another model or with other settings."""


class SameStore(PipelineError):
    """Source and target of an import are one store."""


class FidelityNotMeasured(PipelineError):
    """The fidelity gate's throwaway store could not be made or used."""


class ProbesRefused(FidelityNotMeasured):
    """The gate's built-in texts do not fit the model's context, or their KV does not fit the settings."""
