"""Running ``kvboost prewarm`` by itself: as a line of the user's crontab, or as a systemd timer.

Knows nothing of stores: what to run is handed in as a ``Job``.
"""
