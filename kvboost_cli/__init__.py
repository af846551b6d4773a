"""kvboost: a command-line tool with a persistent on-disk store of transformer KV cache."""
