"""kvboost side by side with others: the same weights, documents, questions and machine, one command per candidate.

===========================================  ====================================================================
``make bench-peers``                         all of them
``python -m benchmarks.peers.pypi_kvboost``  the package ``kvboost`` on PyPI, which is by another author
``python -m benchmarks.peers.llama_cpp``     ``llama-cpp-python``
===========================================  ====================================================================

Run them from the top of the repository, with kvboost's own environment and the default model pulled. Each prints a
table; with ``--json`` one JSON object.

A candidate lives in an environment of its own, ``benchmarks/peers/.environments/NAME``, made on the first run from the
requirements file beside this one and from ``constraints.txt``: torch and transformers are those of kvboost. It runs in
a process of its own that does one thing at a time when told to (``workers/``, a JSON line each way), so candidates and
kvboost are measured in turn, within seconds of each other. Absolute times are compared, and each also with full prefill
in its own process.

**Time to first token** is told by the same rule on both sides: by a clock outside, from the prompt being in hand, with
the model loaded, until the first token is known. **Same order** is a prompt with the documents of an earlier one, in
the same order, and another question; **reordered** has another document first. kvboost has indexed the documents and
never seen any prompt. Prompts are token ids that kvboost builds; nobody's prompt is another's.
"""
