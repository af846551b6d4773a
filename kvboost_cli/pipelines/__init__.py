"""The two flows: documents into the store (``indexing``), and a question to an answer (``asking``)."""
